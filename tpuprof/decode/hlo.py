"""HLO programs as Python objects, whether they came as text or as a protocol buffer.

`hlo_text.parse_hlo_text` reads what `HloModule.to_string()` prints (the optimized, scheduled program with the
compiler's cycle estimates), `hlo_proto.read_hlo_proto` a serialized HloModuleProto or HloProto. In a scheduled
program the order of a computation's instructions is the order of execution.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from functools import cached_property

from tpuprof.decode.hlo_shape import Shape
from tpuprof.records import record

# The value is written as a string in backend_config; the compiler gives none where it has no estimate.
_ESTIMATED_CYCLES = re.compile(r'"estimated_cycles":\s*"?(\d+)')
# The largest 64-bit number stands for no estimate (libtpu 0.0.21, some fusions of products); no program takes so many.
_NO_ESTIMATE_FROM = 1 << 62
_TRIP_COUNT = re.compile(r'"known_trip_count":\s*\{\s*"n":\s*"?(\d+)')
# Opcodes of instructions that multiply matrices.
PRODUCTS = frozenset({"dot", "convolution"})
_MEMORY_PASS_THROUGH = frozenset(
    {"copy", "bitcast", "copy-done", "copy-start", "optimization-barrier", "convert"}
)


@record
class Instruction:
    """One HLO instruction.

    `operands` are names of instructions of the same computation; `called` names computations by the attribute
    that refers to them (`calls`, `to_apply`, `body`, `condition`, ...). `attributes` holds the remaining
    attributes as text. `op_name` is the framework's path for the op, `source_file` and `source_line` where the
    program says it came from (empty and 0 where it does not). `backend_config` is raw text. `text` is the
    instruction's line without metadata and backend_config, `shape_text` its shape as written, layout included;
    both are empty for programs read from a proto. `user_source` is `file:line` of the innermost Python frame that
    is not a library's, where the program carries whole stacks.
    """

    name: str
    opcode: str
    shape: Shape
    operands: list[str] = field(default_factory=list)
    called: dict[str, list[str]] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    backend_config: str = ""
    is_root: bool = False
    parameter_number: int | None = None
    literal: str | None = None
    text: str = ""
    shape_text: str = ""
    user_source: str = ""

    @property
    def estimated_cycles(self) -> int | None:
        """The compiler's own estimate in device cycles, None where it gives none."""
        found = _ESTIMATED_CYCLES.search(self.backend_config)
        cycles = int(found.group(1)) if found else _NO_ESTIMATE_FROM
        return cycles if cycles < _NO_ESTIMATE_FROM else None

    @property
    def source(self) -> str:
        """`file:line`, empty where unknown."""
        return f"{self.source_file}:{self.source_line}" if self.source_file else ""

    @property
    def custom_call_target(self) -> str:
        """What a custom-call calls, empty for other opcodes."""
        return self.attributes.get("custom_call_target", "").strip('"')

    def called_names(self) -> list[str]:
        """All computations this instruction refers to."""
        return [name for names in self.called.values() for name in names]


@record
class Computation:
    """A computation: its instructions by name, in program order (the schedule, where the module has one)."""

    name: str
    instructions: dict[str, Instruction] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions.values())

    def __len__(self) -> int:
        return len(self.instructions)

    @property
    def root(self) -> Instruction | None:
        """The instruction whose value the computation returns."""
        marked = next((each for each in self if each.is_root), None)
        return marked or next(reversed(self.instructions.values()), None)

    def parameters(self) -> list[Instruction]:
        """Parameters in order of their number."""
        found = [each for each in self if each.opcode == "parameter"]
        return sorted(found, key=lambda each: each.parameter_number or 0)


@record
class HloModule:
    """A whole program. `attributes` are those of the module's first line (text only).

    `kernel_flops` are the products in the code of its Pallas kernels, by kernel, where a compile read them.
    """

    name: str
    entry_name: str
    computations: dict[str, Computation]
    is_scheduled: bool = False
    attributes: dict[str, str] = field(default_factory=dict)
    aliases: dict[int, int] = field(default_factory=dict)
    kernel_flops: dict[str, int] = field(default_factory=dict)

    @property
    def entry(self) -> Computation:
        """The computation that runs first; an empty one where the program names none."""
        return self.computations.get(self.entry_name) or Computation(self.entry_name)

    def instructions(self) -> Iterator[Instruction]:
        """Every instruction of every computation."""
        for computation in self.computations.values():
            yield from computation

    def called(self, instruction: Instruction, attribute: str) -> Computation | None:
        """The computation an attribute of an instruction refers to (`body`, `calls`, ...)."""
        names = instruction.called.get(attribute)
        return self.computations.get(names[0]) if names else None

    @cached_property
    def fused_names(self) -> frozenset[str]:
        """Names of computations that are fused into, or applied by, an instruction, and so never run on their own."""
        names: set[str] = set()
        for each in self.instructions():
            if (each.opcode == "fusion" or "to_apply" in each.called) and each.opcode != "call":
                names.update(each.called_names())
        return frozenset(names)

    def trip_count(self, loop: Instruction, within: Computation) -> int | None:
        """How often a `while` of computation `within` runs its body; None where the program does not tell.

        Read from `known_trip_count`, else from a condition that compares a counter, which the loop's operand
        starts at a constant, with a constant; the counter is taken to move by one.
        """
        stated = _TRIP_COUNT.search(loop.backend_config)
        if stated:
            return int(stated.group(1))
        from tpuprof.decode.hlo_loops import counted_trips

        return counted_trips(self, loop, within)


def through_copies(computation: Computation, name: str) -> Instruction | None:
    """The instruction a name's value comes from, looking through copies, bitcasts and converts."""
    seen: set[str] = set()
    while name in computation.instructions and name not in seen:
        seen.add(name)
        each = computation.instructions[name]
        if each.opcode not in _MEMORY_PASS_THROUGH or not each.operands:
            return each
        name = each.operands[0]
    return None
