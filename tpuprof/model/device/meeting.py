"""Which collectives all devices meet at: those that a lateness can be read from.

Where a program runs over a mesh, most collectives are among groups of devices: members of one group wait for each
other, and for nobody else. How long two groups wait says nothing of which came first. A `collective-permute`, and a
transfer to another slice, wait for one device alone.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.device.op_kind import OpKind, opcode

# What is among pairs of devices.
_PAIRS = ("collective-permute", "send", "recv")
# `{{0,1},{2,3}}`, `[2,2]<=[4]` (two groups of two), `{}` for all.
_GROUPS = re.compile(r"replica_groups=(\{[\d,{} ]*\}|\[(\d+),\d+\])")
_OPERAND = re.compile(r"-done\([^%]*%([\w.-]+)")


def meeting_ops(device: DeviceActivity) -> list[int]:
    """Rows of a device's ops that are collectives of all devices, or whose line does not say of which.

    The halves of an asynchronous one count by the groups of its start.
    """
    ops = device.ops
    lines = {
        (each.program[row], each.name[row]): each.long_name[row]
        for each in (device.async_ops, ops)
        for row in (each.kind == OpKind.COLLECTIVE).nonzero()[0].tolist()
    }
    found = []
    for row in (ops.kind == OpKind.COLLECTIVE).nonzero()[0].tolist():
        line = ops.long_name[row]
        if row in ops.across or opcode(line, ops.name[row]).startswith(_PAIRS):
            continue
        begun = _OPERAND.search(line)
        groups = _groups(line) or (
            _groups(lines.get((ops.program[row], begun.group(1)), "")) if begun else None
        )
        if groups in (None, 1):
            found.append(row)
    return found


@lru_cache(maxsize=4_096)
def _groups(line: str) -> int | None:
    """How many groups of devices take part in a collective, each by itself; None where its line does not say."""
    stated = _GROUPS.search(line)
    if stated is None:
        return None
    if stated.group(2):
        return int(stated.group(2))
    return max(stated.group(1).count("{") - 1, 1)
