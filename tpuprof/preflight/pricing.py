"""How long an instruction takes on a chip: the compiler's cycles over the clock, or bytes over a stated speed."""

from __future__ import annotations

from dataclasses import dataclass, field

from tpuprof.decode.custom_calls import BOOKKEEPING
from tpuprof.decode.hlo import HloModule, Instruction
from tpuprof.decode.hlo_shape import HBM, HOST_MEMORY
from tpuprof.preflight.collectives import Collective
from tpuprof.preflight.flops import instruction_flops, kernel_work
from tpuprof.preflight.targets import Target
from tpuprof.preflight.traffic import Traffic
from tpuprof.units import PS_PER_S

# Latency of one hop between neighbours: about a microsecond on every generation (jax-ml's scaling book).
HOP_PS = 1_000_000
# The compiler's estimate of an op that only moves values in HBM is too long. In a public v6e trace a broadcast of 5.4
# GB took 4.4 ms, 74 % of the HBM's speed; the estimate was 15.7 ms. Every copy on v6e is estimated at 359 GB/s. Such an
# op is priced at that share where the estimate is longer. For copies, and on other chips, that is by analogy.
_MOVES = frozenset({"copy", "broadcast", "transpose"})
MOVED_SHARE_OF_HBM = 0.74
# What takes no time of its own: it names, groups or views values.
_FREE = frozenset({"parameter", "constant", "get-tuple-element", "tuple", "bitcast", "after-all", "partition-id",
                   "replica-id", "opt-barrier", "optimization-barrier", "add-dependency", "iota"})  # fmt: skip


@dataclass
class Prices:
    """Prices instructions for one target and remembers which it had to price without the compiler's help.

    `rounds` is how many executions the one being priced stands for.
    """

    module: HloModule
    target: Target
    guessed: dict[str, int] = field(default_factory=dict)
    guessed_ps: int = 0
    rounds: int = 1

    def __post_init__(self) -> None:
        self._traffic = Traffic(self.module)

    def compute_ps(self, instruction: Instruction) -> int:
        """Picoseconds of an instruction that computes.

        The compiler's estimate where there is one, less where it is known to be too long; else FLOPs over peak or
        bytes over HBM bandwidth, whichever is more, counted in `guessed` by opcode.
        """
        cycles = instruction.estimated_cycles
        if cycles is not None:
            estimate = round(float(cycles) * PS_PER_S / self.target.chip.clock_hz)
            return min(estimate, self._move_ps(instruction) or estimate)
        if instruction.opcode in _FREE or instruction.custom_call_target in BOOKKEEPING:
            return 0
        by_bytes = self.bytes_accessed(instruction) / self.target.chip.hbm_bytes_per_s
        by_flops = instruction_flops(self.module, instruction) / self.target.chip.peak_flops_per_s
        label = instruction.custom_call_target or instruction.opcode
        self.guessed[label] = self.guessed.get(label, 0) + 1
        price = round(max(by_bytes, by_flops) * PS_PER_S)
        self.guessed_ps += price * self.rounds
        return price

    def _move_ps(self, instruction: Instruction) -> int:
        """Picoseconds that an op takes which only moves values, by what was measured of one; 0 for any other op."""
        if instruction.opcode not in _MOVES:
            return 0
        moved = self.bytes_accessed(instruction)
        return round(moved / (MOVED_SHARE_OF_HBM * self.target.chip.hbm_bytes_per_s) * PS_PER_S)

    def bytes_accessed(self, instruction: Instruction) -> int:
        """Bytes of HBM that an instruction reads and writes; of a custom call what it says, else twice what it writes.

        What a kernel reads of its operands is unknown: paged attention, for one, is given all pages and reads a few.
        """
        if instruction.opcode == "custom-call":
            stated = kernel_work(instruction).get("bytes_accessed", 0)
            return stated or instruction.shape.bytes_in(HBM) * 2
        return self._traffic.of(instruction)

    def collective_ps(self, collective: Collective) -> int:
        """Picoseconds of a collective on the slice's links, alone on them.

        Every device takes in (n-1)/n of the value over its links (an all-reduce twice that, an all-to-all a
        quarter of a ring's worth more for each four devices); plus a microsecond a hop.
        """
        size = max(collective.group, 1)
        if size == 1:
            return 0
        share = collective.bytes * (size - 1) / size
        if collective.kind == "all-reduce":
            share *= 2
        elif collective.kind in ("all-to-all", "ragged-all-to-all"):
            share *= max(1.0, size / 8)
        elif collective.kind == "collective-permute":
            share = collective.bytes
        speed = self.target.links * self.target.chip.ici_bytes_per_s
        hops = (
            1
            if collective.kind == "collective-permute"
            else sum(max(axis - 1, 0) for axis in self.target.shape)
        )
        return round(share / speed * PS_PER_S) + hops * HOP_PS

    def host_copy_ps(self, size: int) -> int:
        """Picoseconds of a copy between HBM and host memory, alone on the link."""
        rate = self.target.chip.host_bytes_per_s
        assert rate is not None, "every chip that is compiled for has one"
        return round(size / rate * PS_PER_S)

    def hbm_copy_ps(self, size: int) -> int:
        """Picoseconds of a copy between HBM and on-chip memory."""
        return round(size / self.target.chip.hbm_bytes_per_s * PS_PER_S)


def host_copy_bytes(instruction: Instruction) -> tuple[int, str]:
    """(bytes, direction) of a `copy-start` that crosses to or from host memory; (0, "") for any other.

    Its tuple is (destination, source, context).
    """
    parts = instruction.shape.elements
    if len(parts) < 2:
        return 0, ""
    destination, source = parts[0], parts[1]
    if destination.memory_space == HOST_MEMORY and source.memory_space != HOST_MEMORY:
        return destination.bytes, "to_host"
    if source.memory_space == HOST_MEMORY and destination.memory_space != HOST_MEMORY:
        return source.bytes, "from_host"
    return 0, ""
