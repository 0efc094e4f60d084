"""Reads other threads' frames while no garbage collection begins."""

from __future__ import annotations

import gc
import operator
from collections.abc import Callable
from typing import TypeVar, cast

_Read = TypeVar("_Read")


def without_collections(read: Callable[[], _Read]) -> _Read:
    """What `read`, a call of C code, returns. No collection begins in it.

    In Python 3.11 each frame object that is made may start one. Its callbacks, JAX's for example, let other threads run
    on: what is read next is then no frame any more, and the process dies. All happens in one call of C code, so no
    other thread sees that collections are off.
    """
    if not gc.isenabled():
        return read()
    found: list[object] = []
    try:
        found = list(map(operator.call, (gc.disable, read, gc.enable)))
    finally:
        if not found:
            gc.enable()  # what was read is missing: the thread has ended
    return cast(_Read, found[1])
