"""Types of the compiled walks; see `_xspace.pyx`."""

from array import array
from typing import Any

_Bytes = bytes | memoryview
_Columns = tuple[memoryview, memoryview, memoryview, memoryview, memoryview]
_Span = tuple[int, int]
# A buffer of 64-bit integers: numpy's arrays too, which Python 3.11 has no type for.
_Numbers = Any

INTERFACE: int
ENTRY_NUMBERS: int
SEEN_KEYS: int

class DamagedError(Exception): ...

def column(count: int) -> memoryview: ...
def fields(
    data: _Bytes, start: int, end: int, depth: int
) -> tuple[dict[int, list[_Span]], dict[int, list[int]]]: ...
def line(
    data: _Bytes, start: int, end: int, stride: int
) -> tuple[int, int, _Span, _Span, int, list[int]]: ...
def events(
    data: _Bytes,
    start: int,
    end: int,
    metadata_id: memoryview,
    offset: memoryview,
    duration: memoryview,
    seen: memoryview,
    key: int,
    total: memoryview,
    negative: bytearray,
) -> int: ...
def line_stats(data: _Bytes, start: int, end: int, keys: array[int], most: int) -> _Columns: ...
def entry_stats(data: _Bytes, start: _Numbers, end: _Numbers) -> _Columns: ...
def own_stats(data: _Bytes, start: _Numbers, end: _Numbers) -> _Columns: ...
def texts(data: _Bytes, start: _Numbers, end: _Numbers) -> list[str]: ...
def same(
    data: _Bytes, start: _Numbers, end: _Numbers, other_start: _Numbers, other_end: _Numbers
) -> bool: ...
def entries(data: _Bytes, spans: list[_Span], of_events: bool) -> memoryview: ...
def key_range(table: memoryview) -> tuple[int, int, int]: ...
