"""The formats that are read, and which of them a file has: by its content, never by its name."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tpuprof.records import record

if TYPE_CHECKING:
    from tpuprof.decode.columns import Trace

XPLANE = "xplane"
XPLANE_GZ = "xplane-gz"
CHROME = "chrome-trace"
CHROME_GZ = "chrome-trace-gz"
UNKNOWN = "unknown"
EMPTY = "empty"

# Enough to see past a few metadata events before "traceEvents" (bytes).
HEAD_BYTES = 65_536
_GZIP_MAGIC = b"\x1f\x8b"
_SPACE_FIELDS = range(1, 5)
_VARINT, _LENGTH_DELIMITED = 0, 2
# Wire type of each field of a plane: a program (HloProto) begins with a text where a plane has its number.
_PLANE_FIELDS = {1: _VARINT, **dict.fromkeys(range(2, 7), _LENGTH_DELIMITED)}
# Profiles shrink by gzip to a tenth or so. A file that unpacks to more than this many times its size, or to more bytes
# than any profiler writes (protobuf ends at 2 GiB, a Chrome export at a million events), is not a profile.
MAX_RATIO = 200
MAX_UNPACKED_BYTES = 4 << 30
# Below this no ratio is too large (bytes).
_SMALL_BYTES = 64 << 20
_CHUNK_BYTES = 16 << 20


@record(frozen=True)
class Format:
    """A format, plain and in gzip: names of both, what its first bytes look like, and what reads it.

    `looks_like` takes those bytes and the file's size, None in gzip. `read` is `module:function`, which takes the path
    and `compressed`. Of a capture's files the one that comes first by `rank` (plain, gzip) is read.
    """

    plain: str
    gzip: str
    looks_like: Callable[[bytes, int | None], bool]
    read: str
    rank: tuple[int, int]

    def load(self, path: Path, kind: str) -> Trace:
        """The trace in a file of this format. Raises what the reader does."""
        module, _, function = self.read.partition(":")
        trace: Trace = getattr(importlib.import_module(module), function)(path, compressed=kind == self.gzip)
        return trace


def sniff(path: Path) -> str:
    """One of the format names above. Raises `OSError` where the file cannot be read."""
    size = path.stat().st_size
    if not size:
        # As most files of the kernel say, of which some wait for more when they are read (`/proc/kmsg`).
        return EMPTY
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    return sniff_head(head, size)


def sniff_head(head: bytes, size: int) -> str:
    """The format of a file of `size` bytes that begins with `head`."""
    if not size:
        return EMPTY
    packed = head.startswith(_GZIP_MAGIC)
    start, length = (_gunzip_head(head), None) if packed else (head, size)
    found = next((each for each in FORMATS if each.looks_like(start, length)), None)
    if found is None:
        return UNKNOWN
    return found.gzip if packed else found.plain


def format_of(kind: str) -> Format | None:
    """The format of that name; None where nothing reads it."""
    return next((each for each in FORMATS if kind in (each.plain, each.gzip)), None)


def rank_of(kind: str) -> int | None:
    """Which file of a capture is read: the one of the lowest rank. None where nothing reads it."""
    found = format_of(kind)
    return None if found is None else found.rank[kind == found.gzip]


def unpacked_head(path: Path) -> bytes:
    """The first bytes of a file, unpacked where it is compressed; empty where they cannot be. Raises `OSError`."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    return _gunzip_head(head) if head.startswith(_GZIP_MAGIC) else head


def _gunzip_head(head: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
    except zlib.error:
        return b""


def _looks_like_chrome(head: bytes, _size: int | None) -> bool:
    text = head.lstrip()
    return text.startswith((b"{", b"[")) and (b'"traceEvents"' in head or b'"ph"' in head)


def _looks_like_xspace(head: bytes, size: int | None) -> bool:
    """Whether the first field is a field of XSpace that fits the file, and holds a field of its message."""
    tag = _varint(head, 0)
    if tag is None or tag[0] & 7 != _LENGTH_DELIMITED or tag[0] >> 3 not in _SPACE_FIELDS:
        return False
    length = _varint(head, tag[1])
    if length is None or (size is not None and not length[0] > 0):
        return False
    if tag[0] >> 3 != 1:
        return size is None or length[1] + length[0] <= size
    inner = _varint(head, length[1])
    return inner is not None and _PLANE_FIELDS.get(inner[0] >> 3) == inner[0] & 7


# In the order in which a file is tried against them.
FORMATS = (
    Format(CHROME, CHROME_GZ, _looks_like_chrome, "tpuprof.decode.load:read_chrome", (3, 2)),
    Format(XPLANE, XPLANE_GZ, _looks_like_xspace, "tpuprof.decode.load:read_xplane", (0, 1)),
)


def _varint(data: bytes, at: int) -> tuple[int, int] | None:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    return None


def unpacked(path: Path) -> bytes:
    """All bytes of a file, unpacked where it is compressed. Raises `OSError`, and as `gunzip_in_place` does."""
    data = path.read_bytes()
    return gunzip(data) if data.startswith(_GZIP_MAGIC) else data


def gunzip(data: bytes) -> bytes:
    """The decompressed bytes. Raises as `gunzip_in_place` does."""
    return bytes(gunzip_in_place(data))


def gunzip_in_place(data: bytes, largest: int = MAX_UNPACKED_BYTES) -> bytearray:
    """The decompressed bytes, of which no second copy is made.

    Raises `zlib.error` or `EOFError` where they are damaged, `OverflowError` where they unpack to far more than a
    profile does, or to more than `largest` bytes.
    """
    most = min(max(len(data) * MAX_RATIO, _SMALL_BYTES), largest)
    unpacked = bytearray()
    view = memoryview(data)
    while view:
        unpacker = zlib.decompressobj(wbits=31)
        while not unpacker.eof:
            part = unpacker.decompress(view[:_CHUNK_BYTES], _CHUNK_BYTES)
            taken = min(len(view), _CHUNK_BYTES) - len(unpacker.unconsumed_tail or unpacker.unused_data)
            view = view[taken:]
            unpacked += part
            if len(unpacked) > most:
                raise OverflowError(f"more than {most:,} bytes")
            if not part and not len(view) and not unpacker.eof:
                raise EOFError("the compressed data ends early")
        view = view[_zeros_before(view) :]
    return unpacked


def _zeros_before(data: memoryview) -> int:
    """How many zero bytes come first: what pads an archive to the blocks of a tape or a disk."""
    at = 0
    while at < len(data):
        part = bytes(data[at : at + _CHUNK_BYTES])
        other = part.lstrip(b"\0")
        if other:
            return at + len(part) - len(other)
        at += len(part)
    return at
