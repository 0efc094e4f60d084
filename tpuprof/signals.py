"""Named numbers and tables that rules read: each with its unit, its definition, and the reason where it is missing.

A signal that the run cannot tell raises `Unavailable`, which ends the rule that asked for it; it is never 0.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar

from tpuprof.model import attribution as part
from tpuprof.model.host_reads import READ_CALLS
from tpuprof.model.intervals import covered
from tpuprof.model.matmuls import Matmul, matmuls
from tpuprof.model.run import HostRun, Run
from tpuprof.model.telemetry import StepRecord
from tpuprof.report.schema import (
    CompileRow,
    HostReadRow,
    LoopRow,
    Memory,
    OpRow,
    Report,
    StepRow,
    TransferRow,
)
from tpuprof.units import PS_PER_MS

T = TypeVar("T")

# A step counts as typical up to this multiple of the median wall time (ratio): the spread of steady steps seen on
# shared machines stays below it, and a compile, a checkpoint or an evaluation goes far above.
TYPICAL_UP_TO = 1.25
_UNITS: dict[str, str] = {}


class Unavailable(Exception):  # noqa: N818  # it is an answer, not an error
    """Ends a rule whose signal the run cannot tell; its text says why, and what to capture."""


def signal(unit: str) -> Callable[[Callable[[Any], T]], cached_property[T]]:
    """Make a property of `Signals` a signal: computed once, its unit kept for the documentation."""

    def wrap(compute: Callable[[Any], T]) -> cached_property[T]:
        _UNITS[compute.__name__] = unit
        return cached_property(compute)

    return wrap


def signal_units() -> Mapping[str, str]:
    """Unit of every signal, by name, in the order of their definition."""
    return _UNITS


class Signals:
    """The signals of one run, from its Report (without findings) and its tables."""

    def __init__(self, report: Report, run: Run) -> None:
        self.report = report
        self.run = run

    @signal("ms")
    def step_ms(self) -> float:
        """Mean wall time of all captured steps on all hosts."""
        rows = self.steps
        return statistics.fmean(row.wall_ms for row in rows)

    @signal("steps")
    def steps(self) -> list[StepRow]:
        """Every captured step of every host."""
        if not self.report.steps.per_step:
            raise Unavailable("the trace has no steps; mark them with tpuprof.step and capture again")
        return self.report.steps.per_step

    @signal("steps")
    def typical_steps(self) -> list[StepRow]:
        """Steps that take at most 1.25 times the median: what a step is when nothing out of the ordinary happens."""
        limit = TYPICAL_UP_TO * statistics.median(row.wall_ms for row in self.steps)
        return [row for row in self.steps if row.wall_ms <= limit]

    @signal("ms by part")
    def typical_parts(self) -> dict[str, float]:
        """Mean of each part of the breakdown over the typical steps."""
        rows = self.typical_steps
        names = dict.fromkeys(name for row in rows for name in row.breakdown_ms)
        return {name: sum(row.breakdown_ms.get(name, 0.0) for row in rows) / len(rows) for name in names}

    @signal("ms")
    def typical_ms(self) -> float:
        """Mean wall time of the typical steps."""
        return statistics.fmean(row.wall_ms for row in self.typical_steps)

    @signal("ms")
    def typical_device_idle_ms(self) -> float:
        """Time in a typical step in which the device is in no program."""
        return sum(ms for name, ms in self.typical_parts.items() if name not in part.DEVICE_PARTS)

    @signal("share")
    def busy_share(self) -> float:
        """Share of all step time in which the device is in a program."""
        return sum(each.share for name, each in self.report.breakdown.items() if name in part.DEVICE_PARTS)

    @signal("ms")
    def tracing_hidden_ms(self) -> float:
        """Tracing a step behind device work, which costs nothing."""
        if self.report.tracing_hidden_ms_per_step is None:
            raise Unavailable("the trace has no steps")
        return self.report.tracing_hidden_ms_per_step

    @signal("text")
    def bound(self) -> str:
        """What the verdict says holds the run back."""
        return self.report.verdict.bound

    @signal("text")
    def framework(self) -> str:
        """The framework whose host events the trace holds: torch_xla, torch_tpu, jax or unknown."""
        return str(self.report.environment.get("framework") or "unknown")

    @signal("yes or no")
    def is_tpu(self) -> bool:
        """Whether the devices are TPUs."""
        kind = self.report.environment.get("device_type")
        if not kind:
            raise Unavailable("the trace has no device activity; capture on the machine that holds the TPU")
        return "TPU" in str(kind).upper()

    @signal("compiles")
    def step_compiles(self) -> list[CompileRow]:
        """Compiles inside captured steps."""
        return [row for row in self.report.compiles if row.step is not None]

    @signal("share")
    def compile_share(self) -> float:
        """Share of all step time in which the device idles while XLA compiles."""
        return self._share(part.COMPILE)

    @signal("steps")
    def records(self) -> list[StepRecord]:
        """What the training process noted of each step, the ones before the capture included."""
        found = [record for host in self.run.hosts for record in host.records]
        if not found:
            raise Unavailable(
                "the run folder has no telemetry; capture with `tpuprof capture` or tpuprof.profile"
            )
        return found

    @signal("steps")
    def captured_records(self) -> list[StepRecord]:
        """What the training process noted of the captured steps."""
        found = [record for record in self.records if record.captured]
        if not found:
            raise Unavailable("no captured step has telemetry: the capture ended before its first step did")
        return found

    @signal("counts a step")
    def counters(self) -> dict[str, float]:
        """torch_xla's own counters, as the mean increase a captured step."""
        rows = self.captured_records
        names = {name for row in rows for name in row.counters}
        return {name: sum(row.counters.get(name, 0) for row in rows) / len(rows) for name in sorted(names)}

    @signal("count")
    def all_counters(self) -> dict[str, int]:
        """torch_xla's own counters, as the increase over all noted steps, warm-up included."""
        totals: dict[str, int] = {}
        for record in self.records:
            for name, value in record.counters.items():
                totals[name] = totals.get(name, 0) + value
        return totals

    @signal("s")
    def startup_compile_seconds(self) -> float:
        """Graph cuts that compiled, before the captured steps: tracing, hashing and compiling of those cuts."""
        return sum(record.compile_seconds for record in self.records if not record.captured)

    @signal("steps")
    def startup_compiles(self) -> int:
        """Graphs compiled before the captured steps."""
        return sum(record.compiles for record in self.records if not record.captured)

    @signal("yes or no")
    def falls_back(self) -> bool:
        """Whether ops fall back to the host; no where the run folder has no counters to tell."""
        try:
            return bool(self.fallbacks)
        except Unavailable:
            return False

    @signal("counts a step")
    def fallbacks(self) -> dict[str, float]:
        """Ops that ran on the host because XLA has no lowering for them: `aten::` counters a captured step."""
        return {
            name: value
            for name, value in self.counters.items()
            if name.startswith("aten::") and name != "aten::_local_scalar_dense"
        }

    @signal("graphs")
    def graphs_per_step(self) -> float:
        """Graphs handed over in a captured step, compiled anew or not; the median step's."""
        counts = [
            record.counters.get("CachedCompile", 0) + record.counters.get("UncachedCompile", 0)
            for record in self.captured_records
        ]
        return statistics.median(counts)

    @signal("reads")
    def python_reads(self) -> list[HostReadRow]:
        """Device-to-host reads by the user's own Python (`.item()`, `print`, ...), with their lines."""
        return [row for row in self.report.host_reads if row.call in READ_CALLS]

    @signal("share")
    def reads_in_steps_share(self) -> float:
        """Share of steps that hold a blocking device-to-host read."""
        count = sum(len(host.steps) for host in self.run.hosts)
        if not count:
            raise Unavailable("the trace has no steps; mark them with tpuprof.step and capture again")
        return sum(int((host.breakdown.host_reads > 0).sum()) for host in self.run.hosts) / count

    @signal("ms by mark")
    def mark_ms(self) -> dict[str, float]:
        """Time a step that training threads spend in events of each mark (`scan_retrace`, `graph_cut`)."""
        totals: dict[str, float] = {}
        for host in self.run.hosts:
            for mark, spans in host.marks.items():
                inside = int(covered(spans, host.steps.start, host.steps.end).sum())
                totals[mark] = totals.get(mark, 0.0) + inside / PS_PER_MS
        return {mark: ms / len(self.steps) for mark, ms in totals.items()}

    @signal("events by mark")
    def mark_count(self) -> dict[str, float]:
        """How often a step training threads enter events of each mark."""
        totals: dict[str, int] = {}
        for host in self.run.hosts:
            for mark, spans in host.marks.items():
                if len(host.steps):
                    inside = (spans.start >= host.steps.start[0]) & (spans.start < host.steps.end[-1])
                    totals[mark] = totals.get(mark, 0) + int(inside.sum())
        return {mark: count / len(self.steps) for mark, count in totals.items()}

    @signal("transfers")
    def offload(self) -> list[TransferRow]:
        """Copies to and from host memory, most exposed first."""
        return self.report.offload

    @signal("transfers")
    def collectives(self) -> list[TransferRow]:
        """Communication between chips, most exposed first."""
        return self.report.collectives

    @signal("share")
    def offload_share(self) -> float:
        """Share of all step time in which the device waits on copies to and from host memory."""
        return self._share(part.OFFLOAD)

    @signal("share")
    def collective_share(self) -> float:
        """Share of all step time in which the device waits on communication."""
        return self._share(part.COLLECTIVE)

    @signal("ops")
    def ops(self) -> list[OpRow]:
        """Ops by device self time."""
        if not self.report.ops:
            raise Unavailable("the trace has no device ops; capture with the device tracer on")
        return self.report.ops

    @signal("ms")
    def op_ms(self) -> float:
        """Self time of all ops on all devices, over the whole capture."""
        return sum(row.self_ms for row in self.ops)

    @signal("loops")
    def loops(self) -> list[LoopRow]:
        """While loops of the programs, and repeated blocks without one."""
        return self.report.scan

    @signal("bytes")
    def memory(self) -> Memory:
        """Peak HBM of one device and its largest buffers."""
        if self.report.memory.peak_bytes is None:
            raise Unavailable(f"peak memory is not known: {self.report.memory.unavailable}")
        return self.report.memory

    @signal("share")
    def hbm_share(self) -> float:
        """Peak HBM as a share of the device's capacity."""
        memory = self.memory
        if not memory.capacity_bytes or memory.peak_bytes is None:
            raise Unavailable(f"the device's memory size is not known: {memory.unavailable or 'not told'}")
        return memory.peak_bytes / memory.capacity_bytes

    @signal("run.json")
    def info(self) -> dict[str, Any]:
        """Tpuprof's own notes on the run: versions, flags, features, how it was captured."""
        if not self.run.info:
            raise Unavailable(
                "the run folder has no run.json; capture with `tpuprof capture` or tpuprof.profile"
            )
        return self.run.info

    @signal("variables")
    def variables(self) -> dict[str, str]:
        """Environment variables of XLA, PJRT, TPU and torch_xla as the user set them."""
        found = self.info.get("environment")
        if not isinstance(found, dict):
            raise Unavailable("run.json does not say which environment variables were set")
        return {str(name): str(value) for name, value in found.items()}

    @signal("features")
    def features(self) -> list[str]:
        """Features of torch_xla whose modules were loaded: scan, fsdpv2, pallas, assume_pure, dynamo, host_offload."""
        found = self.info.get("features_loaded")
        if not isinstance(found, list):
            raise Unavailable("run.json does not say which features of torch_xla were loaded")
        return [str(each) for each in found]

    @signal("yes or no")
    def spmd(self) -> bool:
        """Whether the run uses SPMD."""
        found = self.info.get("spmd")
        if not isinstance(found, dict):
            raise Unavailable("run.json does not say whether SPMD was on")
        return bool(found.get("on"))

    @signal("version")
    def torch_xla_version(self) -> tuple[int, int]:
        """Major and minor version of torch_xla."""
        text = (self.info.get("versions") or {}).get("torch_xla")
        numbers = str(text or "").split(".")
        if len(numbers) < 2 or not all(each.isdigit() for each in numbers[:2]):
            raise Unavailable("run.json does not say which torch_xla this was")
        return int(numbers[0]), int(numbers[1])

    @signal("hosts")
    def hosts(self) -> list[HostRun]:
        """Each host's own run."""
        return self.run.hosts

    @signal("transfers")
    def parameter_gathers(self) -> list[TransferRow]:
        """All-gathers of an FSDPv2 run; none where FSDPv2 is not known to be in use."""
        loaded = self.run.info.get("features_loaded")
        if not isinstance(loaded, list) or "fsdpv2" not in loaded or not self.spmd:
            return []
        return [row for row in self.collectives if "all-gather" in row.kind]

    @signal("ops")
    def matmuls(self) -> list[Matmul]:
        """Matrix multiplications of all devices with their types and shapes, as far as the trace has HLO lines."""
        devices = [device for host in self.hosts for device in host.devices]
        found = [each for device in devices for each in matmuls(device)]
        if not found:
            raise Unavailable("no matrix multiplication is told by its HLO line in this trace")
        return sorted(found, key=lambda each: -each.self_ms)

    @signal("share")
    def mxu_share(self) -> float:
        """FLOP/s while the device is busy, over the chip's peak; FLOPs as the compiler counts them."""
        return self._rate_share("flops", "peak_flops_per_s", "FLOP/s")

    @signal("share")
    def bandwidth_share(self) -> float:
        """Bytes per second that ops move while the device is busy, over the chip's peak HBM bandwidth."""
        return self._rate_share("bytes", "peak_hbm_bytes_per_s", "HBM bandwidth")

    @signal("steps")
    def slowest_host_steps(self) -> list[StepRow]:
        """Captured steps of the host whose mean step is longest."""
        by_host: dict[str, list[StepRow]] = {}
        for row in self.steps:
            by_host.setdefault(row.host, []).append(row)
        return max(by_host.values(), key=lambda rows: statistics.fmean(row.wall_ms for row in rows))

    @signal("ms by step row")
    def idle_by_step(self) -> list[float]:
        """Time in which the device idles and XLA does not compile, of each step of the slowest host.

        Steps of a host that runs ahead of its device are uneven by nature: it waits in some and not in others. What
        the host's own work adds to a step shows in the device's idle time.
        """
        beside = (*part.DEVICE_PARTS, part.COMPILE)
        return [
            row.wall_ms - sum(row.breakdown_ms.get(name, 0.0) for name in beside)
            for row in self.slowest_host_steps
        ]

    @signal("step rows")
    def even_rows(self) -> tuple[list[int], list[int]]:
        """Rows of the slowest host's steps that are even, and of those that idle longer than usual.

        Longer by more than a quarter of the median step, as for typical steps.
        """
        idle = self.idle_by_step
        median = statistics.median(row.wall_ms for row in self.slowest_host_steps)
        limit = statistics.median(idle) + (TYPICAL_UP_TO - 1) * median
        even = [row for row, ms in enumerate(idle) if ms <= limit]
        return even, [row for row in range(len(idle)) if row not in even]

    @signal("notes")
    def missing(self) -> list[str]:
        """What is known to be missing from the capture."""
        capture = self.run.info.get("capture") or {}
        wanted, done = capture.get("steps_wanted"), capture.get("steps_captured")
        notes = []
        if isinstance(wanted, int) and isinstance(done, int) and done < wanted:
            notes.append(f"{done} of {wanted} steps were captured before training ended")
        expected = self.run.info.get("process_count")
        if isinstance(expected, int) and len(self.hosts) < expected:
            notes.append(f"{len(self.hosts)} of {expected} processes left a profile")
        for host in self.hosts:
            notes += [f"{host.name}: {note}" for note in host.warnings]
            if not host.devices:
                notes.append(f"{host.name}: no device activity")
        return notes

    def scoped_ops(self, word: str) -> list[OpRow]:
        """Ops that the framework traced under a scope with this word in it."""
        wanted = {
            (device.ops.module[row], device.ops.name[row])
            for host in self.hosts
            for device in host.devices
            for row in range(len(device.ops))
            if word in device.ops.scope[row].lower()
        }
        return [op for op in self.ops if (op.module, op.name) in wanted]

    def _rate_share(self, column: str, peak_name: str, what: str) -> float:
        peak = self.report.environment.get(peak_name)
        if not peak:
            raise Unavailable(f"the trace does not say the chip's peak {what}")
        total = sum((getattr(op, column) or 0) * op.occurrences for op in self.ops)
        if not total:
            raise Unavailable(f"the trace states no {column} of ops")
        seconds = sum(device.busy.total for host in self.hosts for device in host.devices) / 1e12
        return float(total / seconds / peak)

    def _share(self, name: str) -> float:
        if not self.report.breakdown:
            raise Unavailable("the trace has no steps; mark them with tpuprof.step and capture again")
        return self.report.breakdown[name].share if name in self.report.breakdown else 0.0
