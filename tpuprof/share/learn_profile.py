"""Finds texts of a profile that may name somebody, so that such a name is replaced wherever else it stands alone.

Only places around a few telltale signs are read: a scan of the bytes takes a fraction of the time of decoding them.
A native module looks for all signs in one pass; without it, each sign has a pass of its own.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from tpuprof.decode import sniff
from tpuprof.decode.mapped_file import ProfileFile

# What stands in a text that names a user, machine, project or bucket.
_SIGNS = (
    b"://",
    b"/home/",
    b"sers/",
    b".internal",
    b"@",
    b"%40",
    b"\\\\",
    b"t1v-n-",
    b"ip-",
    b"projects/",
    b"PROJECT",
    b"HOST",
    b"USER=",
    b"ADDR",
)
# Texts longer than this are cut around the sign (bytes on each side).
_AROUND = 200
# Signs looked at per part of a profile and sign; a text that occurs in every event need not be read a million times.
MAX_SIGNS = 100_000
# A larger profile, unpacked, is not scanned (bytes): a bundle leaves it out, too.
MAX_BYTES = 2 << 30
# What of a file is in memory at a time (bytes).
PART = 16 << 20
# What ends a text, all as the same byte.
_BREAK = b"\n"
_BREAKS = bytes.maketrans(bytes([*range(32), 127]), _BREAK * 33)


def telling_texts(path: Path) -> list[str]:
    """Texts around the telltale signs of a profile, each once; none where the file cannot be read."""
    try:
        found = _texts_of(path)
    except (OSError, EOFError, OverflowError, zlib.error):
        return []
    return sorted({each.decode("utf-8", "replace") for each in found})


def _texts_of(path: Path) -> set[bytes]:
    if not path.is_file() or not 0 < path.stat().st_size <= MAX_BYTES:
        return set()
    if sniff.sniff(path) in (sniff.XPLANE_GZ, sniff.CHROME_GZ):
        return _texts(sniff.gunzip(path.read_bytes()))
    # Without a copy in memory. The file may be cut short meanwhile: what is gone then reads as zeros, as long as
    # `profile` watches.
    profile = ProfileFile(path)
    return _texts(profile.data, profile.drop_pages)


def _texts(data: bytes | memoryview, read: Callable[[], None] = lambda: None) -> set[bytes]:
    """The texts in it; `read` is called after each part, so that a large file need not be in memory as a whole."""
    try:
        from tpuprof.share import _telling
    except ImportError:
        return texts_around(bytes(data))
    found: set[bytes] = set()
    for begin in range(0, len(data), PART):
        found |= _telling.texts_around(data, _SIGNS, _AROUND, MAX_SIGNS, begin, begin + PART)
        read()
    return found


def texts_around(data: bytes) -> set[bytes]:
    """What the native module finds, a pass for each sign."""
    return {text for sign in _SIGNS for text in _around(data, sign)}


def _around(data: bytes, sign: bytes) -> Iterator[bytes]:
    at = data.find(sign)
    for _ in range(MAX_SIGNS):
        if at < 0:
            return
        before = data[max(at - _AROUND, 0) : at].translate(_BREAKS).rpartition(_BREAK)[2]
        after = data[at : at + _AROUND].translate(_BREAKS).partition(_BREAK)[0]
        yield before + after
        at = data.find(sign, at + len(after) or at + 1)
