"""What devices compute: ops, matrix multiplications, loops, memory."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING

from tpuprof.model.device.allocator import Allocated
from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.device.op_table import FEW_OPS
from tpuprof.model.host.vocabulary import TORCH_TPU
from tpuprof.model.intervals import covered, intersect, merge, subtract
from tpuprof.model.run_facts import noted_gradients
from tpuprof.model.steps.training_calls import function_of_program
from tpuprof.report.memory import Memory
from tpuprof.report.op_rows import OpRows
from tpuprof.report.schema import LoopRow
from tpuprof.report.sections import Compute
from tpuprof.signals.base import Unavailable, signal
from tpuprof.signals.inputs import DEVICE_OPS, STEPS
from tpuprof.signals.steps import StepSignals
from tpuprof.signals.telemetry import TelemetrySignals
from tpuprof.units import PS_PER_MS, ps_to_ms

if TYPE_CHECKING:
    from tpuprof.model.device.unused_gradients import UnusedWork
    from tpuprof.model.held_gradients import HeldGradients

# What JAX calls the programs of `jnp.stack` and `jnp.concatenate`, whatever they join.
JOIN = "concatenate"
# Time of a run of an op up to which it may be the CPU client's own cost of starting it (ms): handing parts to the
# threads of its pool and waiting for them takes some 10 us each on two CPUs, several times that on a busy machine.
SHORT_OP_MS = 0.05
# What does not show that a device computes beside a callback: the callback itself, and the loop or call around it.
NOT_BESIDE_CALLBACKS = (OpKind.HOST_CALLBACK, OpKind.CONTAINER)


class DeviceSignals(StepSignals, TelemetrySignals):
    """Ops, loops and memory of the devices."""

    @signal("ops", needs=(DEVICE_OPS,))
    def ops(self) -> OpRows:
        """Ops by device self time."""
        return OpRows.of(self._report.ops)

    @signal("share")
    def one_op_programs_share(self) -> float:
        """How much of the computing is in programs of one or two ops, as those of ops that are called one by one.

        0 where the trace has no ops: for a rule that only adds to a price.
        """
        rows = OpRows.of(self._report.ops)
        columns = (rows.column(name) for name in ("kind", "program", "self_ms"))
        programs: dict[str, list[float]] = {}
        for kind, program, ms in zip(*columns, strict=True):
            if kind == "compute":
                programs.setdefault(program, []).append(ms)
        few = sum(sum(ops) for ops in programs.values() if len(ops) <= FEW_OPS)
        computing = sum(map(sum, programs.values()))
        return few / computing if computing else 0.0

    @signal("share")
    def joining_share(self) -> float:
        """How much of the computing is in programs of JAX that only join arrays, which copies all of them.

        0 where the trace has no ops: for a rule that only adds to its advice.
        """
        rows = OpRows.of(self._report.ops)
        columns = (rows.column(name) for name in ("kind", "program", "self_ms"))
        ops = [
            (function_of_program(program), ms)
            for kind, program, ms in zip(*columns, strict=True)
            if kind == "compute"
        ]
        computing = sum(ms for _, ms in ops)
        return sum(ms for name, ms in ops if name == JOIN) / computing if computing else 0.0

    @signal("share")
    def short_ops_share(self) -> float:
        """How much of the computing is in ops of which a run takes no longer than handing its parts to threads may.

        0 where the trace has no ops: for a rule that only adds to a price.
        """
        rows = OpRows.of(self._report.ops)
        columns = (rows.column(name) for name in ("kind", "occurrences", "self_ms"))
        ops = [(ms, runs) for kind, runs, ms in zip(*columns, strict=True) if kind == "compute" and runs]
        short = sum(ms for ms, runs in ops if ms <= SHORT_OP_MS * runs)
        computing = sum(ms for ms, _ in ops)
        return short / computing if computing else 0.0

    @signal("ms")
    def op_ms(self) -> float:
        """Self time of all ops on all devices, over the whole capture."""
        return float(sum(self.ops.column("self_ms")))

    @signal("ms", needs=(STEPS, DEVICE_OPS))
    def callback_alone_ms(self) -> float:
        """Time per step in which programs call Python on the host and no other op runs; a mean over devices."""
        import statistics

        total = 0.0
        for host in self._run.hosts:
            alone = []
            for device in host.devices:
                others = merge(
                    *(spans for kind, spans in device.by_kind.items() if kind not in NOT_BESIDE_CALLBACKS)
                )
                if device.beside_callbacks is not None:
                    # An op lasts as long as the callback where a part of it waits for the callback's thread.
                    others = intersect(others, device.beside_callbacks)
                own = subtract(device.by_kind[OpKind.HOST_CALLBACK], others)
                alone.append(int(covered(own, host.steps.start, host.steps.end).sum()))
            total += statistics.fmean(alone) if alone else 0.0
        return total / PS_PER_MS / len(self.steps)

    @signal("loops", needs=(DEVICE_OPS,))
    def loops(self) -> list[LoopRow]:
        """While loops of the programs, and repeated blocks without one."""
        return self.loops_if_seen

    @signal("loops")
    def loops_if_seen(self) -> list[LoopRow]:
        """The same, empty where the trace has no device ops: for rules that only add to what they know."""
        return self._report.loops

    @signal("loop")
    def unrolled(self) -> LoopRow | None:
        """The block that a program repeats most often without a loop; None where none does.

        TorchTPU shows no ops of programs where the trace has no device plane: none is known to repeat.
        """
        if self.framework == TORCH_TPU and not self.sees_device:
            return None
        rows = [row for row in self.loops if row.kind == "unrolled" and row.trip_count]
        return max(rows, key=lambda each: each.trip_count or 0, default=None)

    @signal("devices")
    def alike_inputs(self) -> int:
        """How many devices have the same inputs of the step's program; 1 where each has its own, or that is unknown."""
        return max((host.alike_inputs for host in self._run.hosts), default=1)

    @signal("lines")
    def program_lines(self) -> list[LoopRow]:
        """The user's lines that most ops of the step's program come from, where no layers are seen to repeat."""
        return [row for row in self.loops_if_seen if row.kind == "line"]

    @signal("bytes")
    def memory(self) -> Memory:
        """Peak HBM of one device and its largest buffers."""
        if self.memory_if_known.peak_bytes is None:
            raise Unavailable(f"peak memory is not known: {self.memory_if_known.unavailable}")
        return self.memory_if_known

    @signal("bytes")
    def memory_if_known(self) -> Memory:
        """The same, without a peak where the trace has none: for rules that only add to what they know."""
        return self._report.memory

    @signal("ops")
    def input_copies(self) -> OpRows:
        """Ops that copy an input whole because a result must not overwrite it; empty where the trace has no ops."""
        copies = {(each.program, each.op) for each in self._report.memory.input_copies}
        rows = OpRows.of(self._report.ops)
        names = zip(rows.column("program"), rows.column("name"), strict=True)
        return rows.where([each in copies for each in names]) if copies else rows[:0]

    @signal("gradients")
    def held_gradients(self) -> HeldGradients:
        """Gradients that were added up over the captured steps and belong to no optimizer."""
        found = noted_gradients(self._run.info)
        if found is None:
            raise Unavailable("the capture did not look for gradients that no optimizer uses")
        if found.unavailable:
            raise Unavailable(found.unavailable)
        return found

    @signal("ops")
    def unused_work(self) -> UnusedWork | None:
        """What the programs do for these gradients alone; None where the trace embeds no program."""
        return next((host.unused for host in self._run.hosts if host.unused is not None), None)

    @signal("ops")
    def gradient_resets(self) -> tuple[str, ...] | None:
        """Ops of an eager framework that may set or scale gradients in place; None where the trace shows none of it."""
        eager = [host.eager for host in self._run.hosts if host.eager is not None and host.eager.ops]
        return tuple(sorted({name for each in eager for name in each.resets})) if eager else None

    @signal("ops")
    def unused_ops(self) -> tuple[OpRows, OpRows]:
        """The ops that compute only for these gradients: those that surely do, and those that may."""
        return rows_of_unused(OpRows.of(self._report.ops), self.unused_work)

    @signal("ops")
    def recomputed_ops(self) -> OpRows | None:
        """The ops that compute again what their program computed before; None where nothing says that any may."""
        found = [host.recomputed for host in self._run.hosts if host.recomputed is not None]
        if not found:
            return None
        again = frozenset().union(*(each.ops for each in found))
        return _computing(OpRows.of(self._report.ops), again)

    @signal("ops")
    def part_sorts(self) -> OpRows:
        """Sorts of whose result the program uses at most half; none where the programs do not tell."""
        found = frozenset().union(*(host.part_sorts for host in self._run.hosts))
        return _computing(OpRows.of(self._report.ops), found)

    @signal("bytes")
    def recomputed_bytes(self) -> int | None:
        """What the results of these ops take together, in the program in which that is most; None where unknown."""
        sizes = [host.recomputed.bytes for host in self._run.hosts if host.recomputed is not None]
        return None if None in sizes else max((size for size in sizes if size is not None), default=0)

    @signal("share")
    def hbm_share(self) -> float:
        """Peak HBM as a share of the device's capacity."""
        memory = self.memory
        if not memory.capacity_bytes or memory.peak_bytes is None:
            why = f": {memory.unavailable}" if memory.unavailable else ""
            raise Unavailable(f"the device's memory size is not known{why}")
        return memory.peak_bytes / memory.capacity_bytes

    @signal("devices", needs=(STEPS,))
    def allocated(self) -> list[tuple[str, Allocated]]:
        """What the runtime's allocator says of each device, with the host's name."""
        found = [(host.name, each) for host in self.hosts for each in host.allocated]
        if not found:
            raise Unavailable("the trace has no events of the runtime's allocator")
        return found

    @signal("ms", needs=(STEPS, DEVICE_OPS))
    def compute(self) -> Compute:
        """What the device's time goes to, per step and device; unavailable where no op was timed."""
        found = self._report.compute
        if found is None or not sum(row.self_ms_per_step for row in found.categories):
            raise Unavailable("no device op was timed inside a step")
        return found

    @signal("ms")
    def compute_ms(self) -> float:
        """Self time of all ops, per step and device: what shares of the device's time are shares of."""
        return sum(row.self_ms_per_step for row in self.compute.categories)

    @signal("ops")
    def matmuls(self) -> OpRows:
        """Matrix multiplications, as far as the trace has their HLO lines, most self time first."""
        found = self.ops.where(self.ops.column("matmul_type"))
        if not found:
            raise Unavailable("no matrix multiplication is shown by its HLO line in this trace")
        return found

    @signal("share")
    def mxu_share(self) -> float:
        """FLOP/s while the device is in a program, over the chip's peak: the MFU over the busy share."""
        compute = self.compute
        if compute.mfu is None:
            raise Unavailable(compute.mfu_note.removeprefix("unavailable: "))
        if not self.busy_share:
            raise Unavailable("the device is in no program in any step")
        return compute.mfu / self.busy_share

    @signal("share")
    def bandwidth_share(self) -> float:
        """Time HBM needs at its peak for what ops move, over the device's busy time.

        An op counts at most its own time: traffic that stays in the chip's own memory would give more.
        """
        peak = self.compute.peak_hbm_bytes_per_s
        if not peak:
            raise Unavailable("the trace does not say the chip's peak HBM bandwidth")
        columns = zip(self.ops.column("bytes_per_s"), self.ops.column("self_ms"), strict=True)
        needed = sum(min((rate or 0.0) / peak, 1.0) * self_ms for rate, self_ms in columns)
        if not needed:
            raise Unavailable("the trace states no bytes of ops that compute")
        busy = sum(device.busy.total for host in self.hosts for device in host.devices)
        return float(min(needed / ps_to_ms(busy), 1.0))

    def scoped_ops(self, word: str, wanted: Callable[[str], bool]) -> list[bool]:
        """Which ops the framework traced under a scope with this word that is wanted; paths are in lower case."""
        # Devices of one program share the lists of what their ops are.
        lists = {
            (id(each.ops.scope), id(each.ops.program), id(each.ops.name)): each.ops
            for host in self.hosts
            for each in host.devices
        }
        found = {
            (ops.program[row], ops.name[row])
            for ops in lists.values()
            for row, scope in enumerate(ops.scope)
            if word in scope.lower() and wanted(scope.lower())
        }
        keys = zip(self.ops.column("program"), self.ops.column("name"), strict=True)
        return [key in found for key in keys]


def rows_of_unused(rows: OpRows, work: UnusedWork | None) -> tuple[OpRows, OpRows]:
    """Of these ops, those that surely compute only for gradients without a use, and those that may."""
    if work is None:
        return rows[:0], rows[:0]
    return _computing(rows, work.sure), _computing(rows, work.possible)


def _computing(rows: OpRows, ops: Container[tuple[str, str]]) -> OpRows:
    """Those of the rows that compute, and are of these ops, each a program and its op."""
    columns = (rows.column(name) for name in ("program", "name", "kind"))
    return rows.where(
        [kind == "compute" and (program, name) in ops for program, name, kind in zip(*columns, strict=True)]
    )
