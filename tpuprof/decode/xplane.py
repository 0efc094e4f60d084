"""Reads `.xplane.pb` with the fastest reader available: the native one where it is built, else protobuf."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tpuprof.decode.text_damage import was_text, was_text_error
from tpuprof.errors import Code, TpuprofError

if TYPE_CHECKING:
    from tpuprof.decode.columns import Trace

NATIVE = "native"
# What this code expects `_xspace` to be; an older build is as good as none.
_INTERFACE = 6
PROTOBUF = "protobuf"
# Names one of the two readers, for tests and bug tickets.
READER_VARIABLE = "TPUPROF_READER"


def reader_name() -> str:
    """`native` where the compiled reader is there, else `protobuf`; TPUPROF_READER names one of them outright.

    Raises `TpuprofError` (`usage`) where that variable names neither, or the native reader where it is not built.
    """
    built = _native_loads()
    wanted = os.environ.get(READER_VARIABLE, "")
    if wanted not in ("", NATIVE, PROTOBUF):
        raise TpuprofError(
            Code.USAGE,
            f"{READER_VARIABLE}={wanted} is not a reader.",
            f"Set it to {NATIVE} or {PROTOBUF}, or leave it unset.",
        )
    if wanted == NATIVE and not built:
        raise TpuprofError(
            Code.USAGE,
            f"{READER_VARIABLE}={NATIVE}, but the native reader is not built.",
            "Install tpuprof again where a C compiler is installed, or leave the variable unset.",
        )
    return wanted or (NATIVE if built else PROTOBUF)


def parse(data: bytes | memoryview, source: str) -> Trace:
    """Decode the bytes of one `.xplane.pb` into columns.

    Raises `TpuprofError`: `input-truncated` or `input-corrupt` for damaged bytes, `input-no-activity` for a
    well-formed space without any plane, `input-too-large` from 2 GiB on without the native reader.
    """
    try:
        trace = _parse(data, source)
    except TpuprofError as error:
        if error.code in (Code.CORRUPT, Code.TRUNCATED) and was_text(data):
            raise was_text_error(source) from None
        raise
    if not trace.planes:
        raise TpuprofError(
            Code.NO_ACTIVITY,
            f"{source}: the profile holds no planes, so nothing was recorded.",
            "Start the capture while training steps are running, and let at least one whole step pass.",
        )
    return trace


def _native_loads() -> bool:
    try:
        from tpuprof.decode import _xspace  # a build for another Python or machine does not load
    except ImportError:
        return False
    return getattr(_xspace, "INTERFACE", 0) == _INTERFACE


def _parse(data: bytes | memoryview, source: str) -> Trace:
    if reader_name() == NATIVE:
        from tpuprof.decode import xplane_native

        return xplane_native.parse(data, source)
    from tpuprof.decode import xplane_protobuf

    return xplane_protobuf.parse(data, source)
