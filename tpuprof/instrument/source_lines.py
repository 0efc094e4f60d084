"""Where in its source a code object is, and that source's text; quick, since the sampler holds Python's lock meanwhile.

`code.co_positions()` walks the whole function in Python objects (tens of microseconds for each frame), and `linecache`
reads and decodes a file of thousands of lines in about ten milliseconds. benchmarks/stack_text_cost.py compares both.
"""

from __future__ import annotations

import ctypes
import linecache
from collections.abc import Callable
from dis import EXTENDED_ARG, opmap
from functools import lru_cache
from itertools import islice
from types import CodeType

# Files whose lines are kept (files): a step runs through tens of them.
FILES_KEPT = 256
# A longer file is generated, or no source (bytes).
FILE_BYTES_AT_MOST = 4_000_000
# Line, last line, first column, column after the last; None where the code does not tell.
Position = tuple[int | None, int | None, int | None, int | None]
# Bytes of an instruction, and those that jump back to the begin of a loop.
_UNIT = 2
_JUMPS_BACK = frozenset(code for name, code in opmap.items() if name.startswith("JUMP_BACKWARD"))
_UNKNOWN: Position = (None, None, None, None)


def position(code: CodeType, instruction: int) -> Position:
    """Where in its file an instruction comes from (its offset in bytes of byte code); columns in bytes of UTF-8."""
    if _LOCATION is None:
        # One entry for each code unit of two bytes.
        return next(islice(code.co_positions(), max(instruction, 0) // 2, None), None) or _UNKNOWN
    line, last, column, until = _LOCATION(code, max(instruction, 0))
    # What is unknown is 0 or negative; a column may be 0.
    return (
        line if line > 0 else None,
        last if last > 0 else None,
        column if column >= 0 else None,
        until if until >= 0 else None,
    )


def line_of(code: CodeType, instruction: int) -> int:
    """The line of an instruction; that of its loop for a jump back to it that has none.

    The compiler gives no line to a jump that is reached from several lines, as where a loop ends in an `if`. Other
    instructions without one belong to the line before them.
    """
    line = position(code, instruction)[0]
    if line is not None or instruction < 0:
        return line or code.co_firstlineno
    for at in range(_jumps_to(code.co_code, instruction), -1, -_UNIT):
        line = position(code, at)[0]
        if line is not None:
            return line
    return code.co_firstlineno


def jumps_back(bytecode: bytes, at: int) -> bool:
    """Whether an instruction is a loop's jump back to its begin."""
    return at >= 0 and bytecode[at] in _JUMPS_BACK


def _jumps_to(bytecode: bytes, at: int) -> int:
    """Where a jump back goes to; of another instruction its own place."""
    if not jumps_back(bytecode, at):
        return at
    rounds, shift, prefix = bytecode[at + 1], 8, at - _UNIT
    while prefix >= 0 and bytecode[prefix] == EXTENDED_ARG:
        rounds |= bytecode[prefix + 1] << shift
        shift, prefix = shift + 8, prefix - _UNIT
    return max(at + _UNIT - rounds * _UNIT, 0)


def source_lines(path: str, first: int, last: int) -> list[bytes]:
    """Lines `first` to `last` of a file, counted from 1, in UTF-8 with their ends; fewer where the file has fewer."""
    lines = _file_lines(path)
    if lines is None:
        # Of a notebook's cells and of zipped packages Python itself knows the text.
        try:
            return [each.encode() for each in linecache.getlines(path)[first - 1 : last]]
        except ValueError:  # no path at all
            return []
    return lines[first - 1 : last]


@lru_cache(maxsize=FILES_KEPT)
def _file_lines(path: str) -> list[bytes] | None:
    """All lines of a file; None where it is none that can be read."""
    if path.startswith("<") or path in linecache.cache:
        return None
    try:
        with open(path, "rb") as file:
            content = file.read(FILE_BYTES_AT_MOST)
    except (OSError, ValueError):
        return None
    return content.splitlines(keepends=True)


def _location() -> Callable[[CodeType, int], tuple[int, int, int, int]] | None:
    """What tells an instruction's place: compiled, else Python's own function; None where neither is there."""
    try:
        from tpuprof.instrument import _prompt_wait
    except ImportError:  # no compiler built it
        return _by_ctypes()
    return _prompt_wait.location


def _by_ctypes() -> Callable[[CodeType, int], tuple[int, int, int, int]] | None:
    try:
        function = ctypes.pythonapi.PyCode_Addr2Location
    except AttributeError:
        return None
    number = ctypes.POINTER(ctypes.c_int)
    function.argtypes = [ctypes.py_object, ctypes.c_int, number, number, number, number]
    function.restype = ctypes.c_int

    def location(code: CodeType, at: int) -> tuple[int, int, int, int]:
        line, column, last, until = (ctypes.c_int(0) for _ in range(4))
        function(code, at, *map(ctypes.byref, (line, column, last, until)))
        return line.value, last.value, column.value, until.value

    return location


_LOCATION = _location()
