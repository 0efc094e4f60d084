"""The line that an op of a TPU is at: where a library made it, the program's own that called the library."""

from __future__ import annotations

import re
from functools import lru_cache

from tpuprof.decode.limited import PROGRAMS_KEPT
from tpuprof.own_events import is_users_file

_FRAME = re.compile(r"(.+:\d+):\d+")
# Lines kept (lines): those of the programs that are kept, some hundred each.
_KEPT = 100 * PROGRAMS_KEPT


@lru_cache(maxsize=_KEPT)
def users_line(source: str, stack: str) -> str:
    """`file:line` of an op by what the profiler states: its innermost line, and its stack.

    A stack has a line `file:line:column` per frame, the innermost first. Where none is the program's own, the
    innermost line stays.
    """
    if not source or is_users_file(source):
        return source
    frames = (_FRAME.fullmatch(frame) for frame in stack.splitlines())
    places = (frame.group(1) for frame in frames if frame is not None)
    return next((place for place in places if is_users_file(place)), source)
