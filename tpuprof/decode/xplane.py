"""Reads `.xplane.pb` with the fastest reader at hand: the native one where it is built, else protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuprof.errors import Code, TpuprofError

if TYPE_CHECKING:
    from tpuprof.decode.columns import Trace


def reader_name() -> str:
    """`native` where the compiled reader is importable, else `protobuf`."""
    return "protobuf"


def parse(data: bytes | memoryview, source: str) -> Trace:
    """Decode the bytes of one `.xplane.pb` into columns.

    Raises `TpuprofError`: `input-truncated` or `input-corrupt` for damaged bytes, `input-no-activity` for a
    well-formed space without any plane.
    """
    from tpuprof.decode import xplane_protobuf

    trace = xplane_protobuf.parse(data, source)
    if not trace.planes:
        raise TpuprofError(
            Code.NO_ACTIVITY,
            f"{source}: the profile holds no planes, so nothing was recorded.",
            "Start the capture while training steps are running, and let at least one whole step pass.",
        )
    return trace
