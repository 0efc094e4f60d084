"""What a PJRT plugin is asked to do: programs compiled, programs run, buffers made, read and freed.

Runs inside the script's process. A plugin is a table of functions (`PJRT_Api`) that the framework asks for once; some
of its entries are replaced here by ours, which note the call and hand it on. So no compiler is needed to build a shim.
The table only ever grows at its end, so the places below hold for every plugin of the C API's major version 0.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_Native = Callable[[int], int]
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_WORD = 8
# Bytes from the table's start, in pjrt_c_api.h's order.
_COMPILE, _FROM_HOST, _NUM_OUTPUTS, _MEMORY_KINDS, _INNER, _EXECUTE, _LOAD = 200, 216, 392, 416, 448, 480, 488
_DESTROY, _ELEMENT_TYPE, _DIMENSIONS, _TO_HOST = 504, 512, 520, 600
# An executable's outputs are all in the one memory that a CPU has. The plugin leaves that question out, and
# torch.compile asks it.
_MEMORY = b"device"
# PJRT_Buffer_Type: torch's names, bytes an element.
_TYPES = {
    1: ("bool", 1), 2: ("int8", 1), 3: ("int16", 2), 4: ("int32", 4), 5: ("int64", 8), 6: ("uint8", 1),
    7: ("uint16", 2), 8: ("uint32", 4), 9: ("uint64", 8), 10: ("float16", 2), 11: ("float32", 4), 12: ("float64", 8),
    13: ("bfloat16", 2), 14: ("complex64", 8), 15: ("complex128", 16),
}  # fmt: skip
_ONE_BYTE = ("float8", 1)


@dataclass
class Buffer:
    """A buffer on the device. `born` and `died` count the runs before it was made and before it was freed."""

    number: int
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    born: int
    died: int | None = None
    # The run that made it and which of its results it is; None for what was uploaded.
    made: tuple[int, int] | None = None


@dataclass
class Run:
    """One run of a program: the program's number, the buffers it took, and those it made."""

    program: int
    taken: list[int]
    made: list[int]


@dataclass
class Log:
    """All that was asked for. `programs` are (format, code), the same code once; a buffer's number is its place."""

    programs: list[tuple[str, bytes]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    # Buffers whose values were copied to the host.
    read: list[int] = field(default_factory=list)
    # Programs that were loaded in place of being compiled, so that their code is unknown.
    loaded: int = 0
    # Programs that the plugin refuses, and whose results are zeros.
    made_up: int = 0
    # Compiles and runs that have begun and not ended.
    busy: int = 0


class Taps:
    """Listens to the plugin at `path` from now on, into `log`.

    `stand_in` gives the code of a program with the same inputs and results as one that the plugin refuses.
    """

    def __init__(self, path: str, stand_in: Callable[[bytes], bytes] | None = None) -> None:
        self.log = Log()
        self._stand_in = stand_in
        # Within a call of ours Python may free a tensor, and so call again.
        self._lock = threading.RLock()
        self._kept: list[Any] = []
        self._programs: dict[int, int] = {}
        self._by_code: dict[bytes, int] = {}
        self._outputs: dict[int, int] = {}
        self._alive: dict[int, int] = {}
        self._natives: dict[int, int] = {}
        library = ctypes.CDLL(path)
        library.GetPjrtApi.restype = ctypes.c_void_p
        self._kept.append(library)
        self._table = int(library.GetPjrtApi())
        self._dimensions = self._native(_DIMENSIONS)
        self._element_type = self._native(_ELEMENT_TYPE)
        self._inner = self._native(_INNER)
        self._count_outputs = self._native(_NUM_OUTPUTS)
        self._kind = ctypes.create_string_buffer(_MEMORY)
        for place, make in (
            (_COMPILE, self._compile), (_LOAD, self._load), (_EXECUTE, self._execute),
            (_FROM_HOST, self._from_host), (_TO_HOST, self._to_host), (_DESTROY, self._destroy),
            (_MEMORY_KINDS, self._memory_kinds),
        ):  # fmt: skip
            self._replace(place, make)

    def release(self) -> None:
        """Stop listening: the plugin may be called after Python has ended."""
        for place, native in self._natives.items():
            _set_word(self._table + place, native)

    def _native(self, place: int) -> _Native:
        function = _FUNCTION(_word(self._table + place))
        self._kept.append(function)
        return lambda arguments: function(arguments) or 0

    def _replace(self, place: int, make: Callable[[_Native], _Native]) -> None:
        self._natives[place] = _word(self._table + place)
        ours = _FUNCTION(make(self._native(place)))
        self._kept.append(ours)
        _set_word(self._table + place, ctypes.cast(ours, ctypes.c_void_p).value or 0)

    def _compile(self, native: _Native) -> _Native:
        def call(arguments: int) -> int:
            program = _word(arguments + 24)
            code = ctypes.string_at(_word(program + 16), _word(program + 24))
            form = ctypes.string_at(_word(program + 32), _word(program + 40)).decode("ascii", "replace")
            with self._busy():
                error = native(arguments)
                if error and self._compile_stand_in(native, arguments, code):
                    error = 0
                if not error:
                    self._programs[_word(arguments + 48)] = self._number(form, code)
            return error

        return call

    def _compile_stand_in(self, native: _Native, arguments: int, code: bytes) -> bool:
        """Compile a stand-in for a program that the plugin refuses (a TPU's kernel); whether it takes that."""
        text = self._stand_in(code) if self._stand_in is not None else b""
        if not text:
            return False
        program = _word(arguments + 16 + _WORD)
        before = _word(program + 16), _word(program + 24)
        held = ctypes.create_string_buffer(text, len(text))
        _set_word(program + 16, ctypes.addressof(held))
        _set_word(program + 24, len(text))
        try:
            if native(arguments):
                return False
        finally:
            _set_word(program + 16, before[0])
            _set_word(program + 24, before[1])
        self.log.made_up += 1
        return True

    def _number(self, form: str, code: bytes) -> int:
        with self._lock:
            number = self._by_code.setdefault(hashlib.sha256(code).digest(), len(self.log.programs))
            if number == len(self.log.programs):
                self.log.programs.append((form, code))
        return number

    def _load(self, native: _Native) -> _Native:
        def call(arguments: int) -> int:
            self.log.loaded += 1
            return native(arguments)

        return call

    def _execute(self, native: _Native) -> _Native:
        def call(arguments: int) -> int:
            executable = _word(arguments + 16)
            # The lists of the first device: there is one.
            taken = _words(_word(_word(arguments + 32)), _word(arguments + 48))
            with self._busy():
                error = native(arguments)
                if not error:
                    outputs = _words(_word(_word(arguments + 56)), self._output_count(executable))
                    self._note_run(self._programs.get(executable, -1), taken, outputs)
            return error

        return call

    def _note_run(self, program: int, taken: list[int], outputs: list[int]) -> None:
        with self._lock:
            place = len(self.log.runs)
            # What this list does not know was made by a call that is not listened to: it has been there.
            inputs = [
                self._alive[each] if each in self._alive else self._new(each, None, place) for each in taken
            ]
            made = [self._new(each, (place, index), place) for index, each in enumerate(outputs)]
            self.log.runs.append(Run(program, inputs, made))

    def _output_count(self, executable: int) -> int:
        if executable not in self._outputs:
            inner = _arguments(0, executable, 0)
            self._inner(ctypes.addressof(inner))
            count = _arguments(0, inner[3], 0)
            self._count_outputs(ctypes.addressof(count))
            self._outputs[executable] = int(count[3])
        return self._outputs[executable]

    def _from_host(self, native: _Native) -> _Native:
        def call(arguments: int) -> int:
            error = native(arguments)
            if not error:
                with self._lock:
                    self._new(_word(arguments + 112), None, len(self.log.runs))
            return error

        return call

    def _to_host(self, native: _Native) -> _Native:
        def call(arguments: int) -> int:
            # Without a destination only the size is asked for.
            number = self._alive.get(_word(arguments + 16))
            if number is not None and _word(arguments + 32):
                self.log.read.append(number)
            return native(arguments)

        return call

    def _destroy(self, native: _Native) -> _Native:
        def call(arguments: int) -> int:
            with self._lock:
                number = self._alive.pop(_word(arguments + 16), None)
                if number is not None:
                    self.log.buffers[number].died = len(self.log.runs)
            return native(arguments)

        return call

    def _memory_kinds(self, _missing: _Native) -> _Native:
        def call(arguments: int) -> int:
            count = _arguments(0, _word(arguments + 16), 0)
            error = self._count_outputs(ctypes.addressof(count))
            if error:
                return error
            number = int(count[3])
            kinds = (ctypes.c_uint64 * max(number, 1))(*[ctypes.addressof(self._kind)] * number)
            sizes = (ctypes.c_uint64 * max(number, 1))(*[len(_MEMORY)] * number)
            # The caller keeps the pointers for as long as the executable lives.
            self._kept += [kinds, sizes]
            for place, value in ((24, number), (32, ctypes.addressof(kinds)), (40, ctypes.addressof(sizes))):
                _set_word(arguments + place, value)
            return 0

        return call

    def _new(self, address: int, made: tuple[int, int] | None, born: int) -> int:
        shape = _arguments(0, address, 0, 0)
        self._dimensions(ctypes.addressof(shape))
        dimensions = tuple(_words(shape[3], shape[4]))
        kind = _arguments(0, address, 0)
        self._element_type(ctypes.addressof(kind))
        dtype, size = _TYPES.get(int(kind[3]) & 0xFFFFFFFF, _ONE_BYTE)
        number = len(self.log.buffers)
        self.log.buffers.append(
            Buffer(number, dimensions, dtype, math.prod(dimensions) * size, born, None, made)
        )
        self._alive[address] = number
        return number

    def _busy(self) -> _Busy:
        return _Busy(self.log, self._lock)


class _Busy:
    """Counts a call as begun and not ended."""

    def __init__(self, log: Log, lock: threading.RLock) -> None:
        self._log, self._lock = log, lock

    def __enter__(self) -> None:
        with self._lock:
            self._log.busy += 1

    def __exit__(self, *_what: object) -> None:
        with self._lock:
            self._log.busy -= 1


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _words(address: int, count: int) -> list[int]:
    return list((ctypes.c_uint64 * count).from_address(address)) if count else []


def _set_word(address: int, value: int) -> None:
    ctypes.c_uint64.from_address(address).value = value


def _arguments(*fields: int) -> ctypes.Array[ctypes.c_uint64]:
    """A struct of arguments: its own size, then these words."""
    return (ctypes.c_uint64 * (len(fields) + 1))((len(fields) + 1) * _WORD, *fields)
