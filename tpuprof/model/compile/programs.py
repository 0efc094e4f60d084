"""The programs that a capture embeds: each is parsed for its outline once, also where a thousand hosts embed it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from tpuprof.decode.limited import PROGRAMS_KEPT
from tpuprof.model.compile.outline import Outline, outline_of

if TYPE_CHECKING:
    from tpuprof.decode.hlo import HloModule
    from tpuprof.decode.hlo_pb2 import HloModuleProto

Value = TypeVar("Value")
# Outlines kept (programs): a capture that recompiles in every step has some dozens.
OUTLINES_KEPT = 256
_DIGEST_BYTES = 16
# How the bounds of a slice begin, as a number that is part of a program.
SLICED = "{["
# Numbers of slices from which Python decides how many there are (count). A slice that moves has two.
NUMBERS_OF_SLICES = 3


class Kept(Generic[Value]):
    """Values by digest, the newest so many."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[bytes, Value] = OrderedDict()
        self._lock = Lock()

    def get(self, key: bytes) -> Value | None:
        """The value, None where it is not kept."""
        return self._values.get(key)

    def put(self, key: bytes, value: Value) -> Value:
        """Keep a value, and return it."""
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        return value


_OUTLINES: Kept[Outline] = Kept(OUTLINES_KEPT)


class Programs(Mapping[str, bytes]):
    """Serialized HLO by program name."""

    def __init__(self, protos: Mapping[str, bytes]) -> None:
        self._protos = protos
        self._digests: dict[str, bytes] = {}

    @classmethod
    def of(cls, protos: Mapping[str, bytes]) -> Programs:
        """The programs, as they are where they are such already."""
        return protos if isinstance(protos, cls) else cls(protos)

    def __getitem__(self, name: str) -> bytes:
        return self._protos[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._protos)

    def __len__(self) -> int:
        return len(self._protos)

    def digest(self, name: str) -> bytes:
        """What stands for a program's bytes."""
        if name not in self._digests:
            self._digests[name] = blake2b(self._protos[name], digest_size=_DIGEST_BYTES).digest()
        return self._digests[name]

    def nearest(self, program: str, earlier: list[str]) -> tuple[HloModule, HloModule] | None:
        """A program and that of the earlier ones which differs least from it; None where either cannot be read."""
        name = self.nearest_name(program, earlier)
        pair = (_parse(self[program]), _parse(self[name])) if name else (None, None)
        return pair if pair[0] is not None and pair[1] is not None else None  # type: ignore[return-value]

    def nearest_name(self, program: str, earlier: list[str]) -> str:
        """Which of the earlier programs differs least from a program; empty where they cannot be read.

        Of those that differ as much, the first of `earlier`, where the newest come first.
        """
        new, nearest = self._nearest(program, earlier)
        if new is None or len(nearest) < 2:
            return next(iter(nearest), "")
        return min(nearest, key=lambda name: new.distance_in_sizes(nearest[name]))

    def nearest_with_lines(self, program: str, earlier: list[str]) -> str:
        """Which of the programs that differ least from a program has source lines; empty where none has."""
        _, nearest = self._nearest(program, earlier)
        return next((name for name, old in nearest.items() if old.has_lines), "")

    def slices_vary(self, program: str, nearest: str, earlier: list[str]) -> bool:
        """Whether a program differs from the nearest in bounds of slices alone, and others in how many there are.

        A slice that moves is one in all graphs, or one less where it is at an end: so at least three numbers of slices
        are asked for, among programs with the same inputs.
        """
        new, old = self._outline(program), self._outline(nearest)
        if new is None or old is None:
            return False
        changed = (new.literals - old.literals) + (old.literals - new.literals)
        if not changed or not all(each.startswith(SLICED) for each in changed):
            return False
        known = [each for name in earlier if name in self and (each := self._outline(name)) is not None]
        counts = {each.opcodes["slice"] for each in (new, *known) if each.types == new.types}
        return len(counts) >= NUMBERS_OF_SLICES

    def _nearest(self, program: str, earlier: list[str]) -> tuple[Outline | None, dict[str, Outline]]:
        """A program, and those of the earlier ones that differ least from it, in their order."""
        new = self._outline(program) if program in self else None
        found = [(name, old) for name in earlier if name in self and (old := self._outline(name)) is not None]
        if new is None or not found:
            return new, {}
        distances = [new.distance(old) for _, old in found]
        least = min(distances)
        return new, {name: old for (name, old), far in zip(found, distances, strict=True) if far == least}

    def _outline(self, name: str) -> Outline | None:
        """What a program holds, None where it is damaged."""
        key = self.digest(name)
        known = _OUTLINES.get(key)
        if known is not None:
            return known
        proto = _message(self[name])
        return _OUTLINES.put(key, outline_of(proto)) if proto is not None else None


def _message(data: bytes) -> HloModuleProto | None:
    """The module's message inside a trace's serialized HloProto, None where it is damaged."""
    from google.protobuf.message import DecodeError

    from tpuprof.decode import hlo_pb2

    try:
        return hlo_pb2.HloProto.FromString(data).hlo_module
    except DecodeError:
        return None


@lru_cache(maxsize=PROGRAMS_KEPT)
def _parse(data: bytes) -> HloModule | None:
    """The module inside a trace's serialized HloProto, None where it is damaged."""
    from tpuprof.decode.hlo_proto import from_proto

    proto = _message(data)
    return from_proto(proto) if proto is not None else None
