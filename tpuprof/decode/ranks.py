"""Processes of one host, by the names of their profiles.

tpuprof names them `<host>-p<rank>`, TorchTPU `<host>_<rank>`, and vLLM on TorchTPU `rank<rank>_<host>`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_OURS = re.compile(r"(?P<host>.+)-p(?P<rank>\d{1,6})")
# A host may be called so without any ranks: TorchTPU's traces alone are taken to follow these.
_OF_TORCH_TPU = (
    re.compile(r"rank(?P<rank>\d{1,6})_(?P<host>.+)"),
    re.compile(r"(?P<host>.+)_(?P<rank>\d{1,6})"),
)


def machines(names: Sequence[str], *, torch_tpu: bool) -> int:
    """How many hosts the processes of these profiles ran on.

    A rank is one only where all names have one, in the same form, and no two the same; else each name is a host.
    """
    forms = (_OURS, *_OF_TORCH_TPU) if torch_tpu else (_OURS,)
    for form in forms:
        found = [form.fullmatch(name) for name in names]
        known = [each for each in found if each is not None]
        if len(known) == len(names) and len({int(each["rank"]) for each in known}) == len(names):
            return len({each["host"] for each in known})
    return len(names)


def in_order(name: str) -> tuple[str, int, str]:
    """A key that puts the processes of a host in the order of their ranks: 10 comes after 2."""
    for form in (_OURS, *_OF_TORCH_TPU):
        if found := form.fullmatch(name):
            return found["host"], int(found["rank"]), name
    return name, -1, name
