"""Reads an XSpace with the native walks; numpy is imported only once the file is walked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuprof.decode import _xspace
from tpuprof.decode.xplane_walk import SPACE_DEPTH, Data, walk
from tpuprof.errors import Code, TpuprofError

if TYPE_CHECKING:
    from tpuprof.decode.columns import Trace


def parse(data: Data, source: str) -> Trace:
    """Decode the bytes of one `.xplane.pb`.

    Raises `TpuprofError`: `input-truncated` where the bytes end early, `input-corrupt` where they are damaged.
    """
    try:
        space = walk(data)
        from tpuprof.decode.xplane_trace import trace_of

        return trace_of(data, space, source)
    except _xspace.DamagedError as damage:
        raise _error(damage, data, source) from None


def _error(damage: _xspace.DamagedError, data: Data, source: str) -> TpuprofError:
    position, ended = damage.args
    # Only the space's own fields can run past the end of the file; within it, damage is what is left.
    if ended and _runs_out(data):
        return TpuprofError(
            Code.TRUNCATED,
            f"{source}: the file ends early ({len(data):,} bytes are there, more were announced).",
            "Copy it again from the training host, or capture again with fewer steps.",
        )
    return TpuprofError(
        Code.CORRUPT,
        f"{source}: the file is damaged near byte {position:,} of {len(data):,}.",
        "Copy it again from the training host, or capture again.",
    )


def _runs_out(data: Data) -> bool:
    try:
        _xspace.fields(data, 0, len(data), SPACE_DEPTH)
    except _xspace.DamagedError as damage:
        return bool(damage.args[1])
    return False
