"""The collectives of a compiled program: which instruction is one, of what kind, how many bytes it moves."""

from __future__ import annotations

from dataclasses import dataclass

from tpuprof.decode.hlo import Computation, HloModule, Instruction
from tpuprof.decode.replica_groups import group_size

KINDS = (
    "all-gather", "all-reduce", "reduce-scatter", "all-to-all", "ragged-all-to-all", "collective-permute",
    "collective-broadcast",
)  # fmt: skip
ASYNC_START = "AsyncCollectiveStart"
ASYNC_DONE = "AsyncCollectiveDone"
# How many calls deep a collective is looked for. libtpu writes one; a damaged text may call in a circle.
_CALLS_DEEP = 4


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective as the program performs it.

    `bytes` is the size of the whole value on one device: what an all-gather gives, what a reduce-scatter,
    all-reduce, all-to-all or permute takes. `group` is how many devices take part. `channel` tells the parts of
    one asynchronous collective from another's.
    """

    kind: str
    bytes: int
    group: int
    channel: str
    role: str
    source: str
    op_name: str


class Collectives:
    """Finds the collectives of one module; `devices` is the size of a group that the program does not state."""

    def __init__(self, module: HloModule, devices: int) -> None:
        self._module = module
        self._devices = devices
        self._asynchronous = {
            each.attributes["channel_id"]
            for computation in module.computations.values()
            if any(part.custom_call_target == ASYNC_START for part in computation)
            for each in computation
            if _plain_kind(each.opcode) and "channel_id" in each.attributes
        }

    def of(self, instruction: Instruction) -> Collective | None:
        """The collective an instruction is, starts, continues or ends; None for anything else.

        `role` is `sync`, `start`, `done` or `part` (a fusion that goes on with computing while the collective
        that another instruction started is under way).
        """
        kind = _plain_kind(instruction.opcode)
        if kind:
            return _read(instruction, instruction, kind, _role(instruction.opcode), self._devices)
        if instruction.opcode in ("fusion", "async-start", "call"):
            return self._inside(instruction)
        return None

    def _inside(self, instruction: Instruction) -> Collective | None:
        for name in instruction.called_names():
            inner, found = self._in_computation(name)
            if inner is None or found is None:
                continue
            kind = _plain_kind(found.opcode)
            if kind == "all-reduce" and any(each.opcode == "dynamic-slice" for each in inner):
                # The TPU compiler writes a reduce-scatter as an all-reduce of which each device keeps its slice.
                kind = "reduce-scatter"
            return _read(instruction, found, kind, self._fused_role(instruction, inner, found), self._devices)
        return None

    def _in_computation(
        self, name: str, depth: int = _CALLS_DEEP
    ) -> tuple[Computation | None, Instruction | None]:
        """The first collective of a computation and the computation that holds it.

        What a SparseCore runs stands one call deeper than what the TensorCore runs: async-start, call, collective.
        """
        inner = self._module.computations.get(name)
        for each in inner or ():
            if _plain_kind(each.opcode):
                return inner, each
            for deeper in each.called_names() if each.opcode == "call" and depth else ():
                found = self._in_computation(deeper, depth - 1)
                if found[1] is not None:
                    return found
        return inner, None

    def within(self) -> set[str]:
        """Names of the computations that are part of one collective's instruction, at any depth."""
        found: set[str] = set()
        for each in self._module.instructions():
            if each.opcode in ("fusion", "async-start", "call") and self.of(each) is not None:
                self._add_called(each, found)
        return found

    def _add_called(self, instruction: Instruction, found: set[str]) -> None:
        for name in instruction.called_names():
            if name not in found:
                found.add(name)
                for each in self._module.computations.get(name) or ():
                    self._add_called(each, found)

    def _fused_role(self, instruction: Instruction, inner: Computation, found: Instruction) -> str:
        targets = {each.custom_call_target for each in inner if each.opcode == "custom-call"}
        if instruction.opcode == "async-start" or ASYNC_START in targets:
            return "start"
        if ASYNC_DONE in targets:
            return "done"
        asynchronous = found.attributes.get("channel_id", "") in self._asynchronous
        return "part" if instruction.opcode == "fusion" and asynchronous else "sync"


def _read(outer: Instruction, found: Instruction, kind: str, role: str, devices: int) -> Collective:
    size = group_size(found.attributes.get("replica_groups", ""), devices)
    shape = found.shape
    if found.opcode.endswith("-start") and shape.is_tuple and len(shape.elements) > 1:
        shape = shape.elements[1]
    result = shape.bytes
    whole = result * size if found.opcode.startswith("reduce-scatter") else result
    return Collective(
        kind, whole, size, found.attributes.get("channel_id", outer.name), role,
        found.source or outer.source, found.op_name or outer.op_name,
    )  # fmt: skip


def _plain_kind(opcode: str) -> str:
    base = opcode.removesuffix("-start").removesuffix("-done")
    return base if base in KINDS else ""


def _role(opcode: str) -> str:
    if opcode.endswith("-start"):
        return "start"
    return "done" if opcode.endswith("-done") else "sync"
