"""How many devices a collective is among, from the `replica_groups` of its instruction."""

from __future__ import annotations

import re

# `{{0,1},{2,3}}`, `[2,2]<=[4]` (two groups of two), `{}` or nothing for all.
_LISTED = re.compile(r"^\{\{([\d,]*)\}")
_IOTA = re.compile(r"^\[(\d+),(\d+)\]")


def group_size(text: str, devices: int) -> int:
    """Devices in the first group; all of them (`devices`) where the text names none."""
    iota = _IOTA.match(text)
    if iota:
        return int(iota.group(2))
    listed = _LISTED.match(text)
    if listed and listed.group(1):
        return listed.group(1).count(",") + 1
    return devices
