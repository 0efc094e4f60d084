"""Types of the compiled walks; see `_xspace.pyx`."""

import numpy as np
import numpy.typing as npt

_Int64 = npt.NDArray[np.int64]
_UInt8 = npt.NDArray[np.uint8]
_Bytes = bytes | memoryview
_Columns = tuple[_Int64, _Int64, _UInt8, npt.NDArray[np.uint64], _Int64]
_Span = tuple[int, int]

INTERFACE: int
SEEN_KEYS: int

class DamagedError(Exception): ...

def fields(data: _Bytes, start: int, end: int, depth: int) -> _Int64: ...
def line(data: _Bytes, start: int, end: int, stride: int) -> tuple[int, int, _Span, _Span, int, _Int64]: ...
def events(
    data: _Bytes,
    start: int,
    end: int,
    metadata_id: _Int64,
    offset: _Int64,
    duration: _Int64,
    seen: _Int64,
    key: int,
    total: _Int64,
    negative: _UInt8,
) -> int: ...
def line_stats(data: _Bytes, start: int, end: int, keys: _Int64, most: int) -> _Columns: ...
def entry_stats(data: _Bytes, starts: _Int64, ends: _Int64) -> _Columns: ...
def own_stats(data: _Bytes, starts: _Int64, ends: _Int64) -> _Columns: ...
def entries(data: _Bytes, starts: _Int64, ends: _Int64, of_events: bool) -> _Int64: ...
