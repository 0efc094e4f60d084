"""Opens one profiler file of any format tpuprof reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tpuprof.decode import sniff
from tpuprof.decode.kineto import looks_like_kineto
from tpuprof.decode.mapped_file import ProfileFile
from tpuprof.decode.reading import not_regular, reading
from tpuprof.decode.text_damage import was_text, was_text_error
from tpuprof.errors import Code, TpuprofError

if TYPE_CHECKING:
    from tpuprof.decode.columns import Trace


def load(path: Path) -> Trace:
    """Decode a file into columns.

    Raises `TpuprofError` with a stable code where it is missing, unreadable, empty, of an unknown format,
    truncated or damaged.
    """
    with reading(path):
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise not_regular(path)
        kind = sniff.sniff(path)
        if kind == sniff.EMPTY:
            raise TpuprofError(
                Code.EMPTY_FILE,
                f"{path}: the file is empty, so the profiler wrote nothing (a profile over 2 GB ends this way).",
                "Capture fewer steps.",
            )
        found = sniff.format_of(kind)
        if found is not None:
            return found.load(path, kind)
        if was_text(sniff.unpacked_head(path)):
            raise was_text_error(str(path))
    raise TpuprofError(
        Code.UNKNOWN_FORMAT,
        f"{path}: neither an XPlane profile nor a profiler's Chrome-JSON export.",
        "Give an .xplane.pb, a .trace.json.gz, or the folder they were captured into.",
    )


def read_xplane(path: Path, *, compressed: bool) -> Trace:
    """An XPlane profile. Raises `TpuprofError`."""
    from tpuprof.decode import xplane

    if compressed:
        return xplane.parse(sniff.gunzip(path.read_bytes()), str(path))
    file = ProfileFile(path)
    try:
        trace = xplane.parse(file.data, str(path))
    except TpuprofError:
        file.check()
        raise
    file.check()
    # What was walked is not needed again, except for a few texts and stats, which are then read again.
    file.drop_pages()
    trace.check = file.check
    return trace


def read_chrome(path: Path, *, compressed: bool) -> Trace:
    """A profiler's Chrome JSON. Raises `TpuprofError`."""
    from tpuprof.decode import chrome_trace

    if compressed:
        unpacked = sniff.gunzip_in_place(path.read_bytes())
        return _native(unpacked, str(path)) or chrome_trace.parse(unpacked, str(path))
    file = ProfileFile(path)
    try:
        trace = _native(file.data, str(path), file.drop_pages) or chrome_trace.parse(
            bytes(file.data), str(path)
        )
    except TpuprofError:
        file.check()
        raise
    file.check()
    trace.check = file.check
    return trace


def _native(
    data: bytes | bytearray | memoryview, source: str, drop_pages: Callable[[], None] = lambda: None
) -> Trace | None:
    """The trace by the compiled walk; None where that is not built, or the text is unusual."""
    try:
        from tpuprof.decode import chrome_native
    except ImportError:  # not built, or for another Python or machine
        return None
    # Traces of torch.profiler name and number things otherwise.
    return None if looks_like_kineto(data) else chrome_native.parse(data, source, drop_pages)
