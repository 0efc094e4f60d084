"""What each step did by torch_xla's own counters and metrics, and which graphs it compiled.

Counters cost a fraction of a microsecond and are read at every step; metrics copy up to a thousand samples
and are read around captured steps only.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any

from tpuprof.instrument.stack_frames import user_frames
from tpuprof.instrument.state import compile_ns, counter
from tpuprof.units import NS_PER_S

COUNTERS = (
    "UncachedCompile",
    "CachedCompile",
    "PersistentCacheHit",
    "PersistentCacheMiss",
    "PersistentCacheLoad",
    "PersistentCacheDeserializeFailure",
    "CompileWithAutoSharding",
    "ExecuteComputation",
    "ExecuteReplicated",
    "MarkStep",
    "CreateXlaTensor",
    "DeviceDataCacheMiss",
    "EarlySyncLiveTensorsCount",
    "InputOutputAliasCount",
    "UncachedOutputSharding",
    "ReshardParameters",
    "VirtualDeviceUsage",
)
METRICS = (
    "CompileTime",
    "ExecuteTime",
    "ExecuteReplicatedTime",
    "EagerOpCompileTime",
    "EagerOpExecuteTime",
    "DeviceLockWait",
    "LazyTracing",
    "TensorsGraphSize",
    "TransferToDeviceTime",
    "TransferFromDeviceTime",
    "InboundData",
    "OutboundData",
    "ReshardData",
)
FALLBACK_PREFIX = "aten::"
# Number of the record of what came before a recording without steps.
PREPARATION = -1


@dataclass
class CompileRecord:
    """One or more graphs compiled at a graph cut: how many, how long the cut took, Python frames user first.

    Graphs compiled elsewhere, by a read of a value or an op that runs on the host, have no frames. `graph_hashes` are
    known of compiles inside the captured steps only: torch_xla tells them in the profile alone.
    """

    graphs: int
    seconds: float
    frames: list[str]
    graph_hashes: list[str] = field(default_factory=list)


@dataclass
class StepRecord:
    """One line of telemetry; `start_ns` is since the epoch. Deltas of zero are left out.

    `fallbacks` has the lines found so far of ops that ran on the CPU, by op, `fallbacks_also` further lines that call
    them, `fallbacks_inside` the lines of libraries in which they do, and `gradients` those of these ops that compute
    the gradient of their line; `samples` is how many samples the process trained on, where the program states it.
    `repeats` says that it is of the time before a recording by the clock that is not the first, and that what compiled
    there is no preparation of training: the program compiles all the time.
    """

    step: int
    start_ns: int
    wall_ns: int
    captured: bool
    counters: dict[str, int]
    metrics: dict[str, list[float]]
    compiles: list[CompileRecord] = field(default_factory=list)
    fallbacks: dict[str, str] = field(default_factory=dict)
    samples: float | None = None
    gradients: list[str] = field(default_factory=list)
    fallbacks_also: dict[str, list[str]] = field(default_factory=dict)
    fallbacks_inside: dict[str, str] = field(default_factory=dict)
    repeats: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The record as one JSON object."""
        return asdict(self)


class Telemetry:
    """Takes differences of counters and metrics from step to step."""

    def __init__(self, extension: Any) -> None:
        self._extension = extension
        self._counters = self._read_counters()
        self._metrics: dict[str, tuple[int, float]] | None = None
        self._compiles: list[CompileRecord] = []
        # Fewest compiles that had begun and not ended so far: what ended otherwise, it counts as well.
        self._fewest_open: int | None = None
        self.compiles_under_way()
        self._before_cut = (self.compiles_so_far(), time.perf_counter())
        # A framework without graph cuts notes its compiles itself.
        self._drain = getattr(extension, "drain_compiles", None)
        # Graphs that are in a note already, and the time of all compiles up to then (ns).
        self._noted = self.compiles_so_far()
        self._noted_ns = compile_ns(extension)
        self.records: list[StepRecord] = []

    def compiles_so_far(self) -> int:
        """Graphs compiled since the process began."""
        return counter(self._extension, "UncachedCompile")

    def graphs_run_so_far(self) -> int:
        """Graphs handed to the runtime since the process began, compiled again or not."""
        return self.compiles_so_far() + counter(self._extension, "CachedCompile")

    def compiles_under_way(self) -> bool:
        """Whether torch_xla compiles a graph right now: it counts a compile as that begins, and again as it ends."""
        data = self._extension._xla_metric_data("CompileTime")
        ended = (int(data[0]) if data else 0) + counter(self._extension, "PersistentCacheHit")
        now = self.compiles_so_far() - ended
        self._fewest_open = now if self._fewest_open is None else min(self._fewest_open, now)
        return now > self._fewest_open

    def compiled_calls_so_far(self) -> int:
        """Graphs that functions of torch.compile (backend openxla) ran without a graph cut."""
        data = self._extension._xla_metric_data("RunCachedGraphInputData")
        return int(data[0]) if data else 0

    def before_cut(self) -> None:
        """Remember where the counters stand before a graph cut."""
        self._before_cut = (self._note_uncut(), time.perf_counter())

    def after_cut(self) -> None:
        """Keep a record, with the Python frames, if the cut compiled."""
        compiles, began = self._before_cut
        compiles = max(compiles, self._noted)
        graphs = self.compiles_so_far() - compiles
        if graphs > 0:
            self._compiles.append(CompileRecord(graphs, time.perf_counter() - began, user_frames()))
            self._noted, self._noted_ns = compiles + graphs, compile_ns(self._extension)

    def _note_uncut(self) -> int:
        """Keep a record of what compiled since the last note: no graph cut did, so its lines are unknown.

        Returns how many graphs were compiled so far.
        """
        compiles = self.compiles_so_far()
        graphs = compiles - self._noted
        if graphs > 0 and self._drain is None:
            before, self._noted_ns = self._noted_ns, compile_ns(self._extension)
            self._noted = compiles
            self._compiles.append(CompileRecord(graphs, (self._noted_ns - before) / NS_PER_S, []))
        return compiles

    def _drain_compiles(self) -> None:
        """Take the compiles over that a framework without graph cuts noted itself."""
        for graphs, seconds, frames in self._drain() if self._drain is not None else ():
            self._compiles.append(CompileRecord(graphs, seconds, frames))

    def end_step(self, step: int, start_ns: int, wall_ns: int, *, captured: bool) -> StepRecord:
        """Close a step's record."""
        counters = self._read_counters()
        metrics = self._read_metrics() if captured else None
        self._drain_compiles()
        self._note_uncut()
        record = StepRecord(
            step,
            start_ns,
            wall_ns,
            captured,
            {name: value - self._counters.get(name, 0) for name, value in counters.items()},
            _metric_deltas(self._metrics, metrics),
            self._compiles,
        )
        record.counters = {name: delta for name, delta in record.counters.items() if delta}
        self._counters, self._metrics, self._compiles = counters, metrics, []
        self.records.append(record)
        return record

    def end_preparation(self, start_ns: int, began_ns: int) -> None:
        """Note what compiled before a recording by the clock, which follows no steps, since the last note."""
        wall_ns = time.perf_counter_ns() - began_ns
        self.end_step(PREPARATION, start_ns, wall_ns, captured=False)

    def only_the_first_prepares(self) -> None:
        """Mark what was noted of the time before all recordings by the clock but the first as no preparation."""
        for each in [each for each in self.records if each.step == PREPARATION][1:]:
            each.repeats = True

    def forget_steps(self) -> None:
        """Forget every step so far: they were none of training."""
        self.records.clear()

    def report(self) -> str:
        """torch_xla's own metrics report of the whole process."""
        return str(self._extension._xla_metrics_report())

    def name_graphs(self, hashes: dict[int, list[str]]) -> None:
        """Enter the hashes of graphs compiled in captured steps, by step number."""
        for record in self.records:
            found = hashes.get(record.step, [])
            if record.captured and len(found) == sum(each.graphs for each in record.compiles):
                for each in record.compiles:
                    each.graph_hashes, found = found[: each.graphs], found[each.graphs :]

    def begin_captured_step(self) -> None:
        """Read the metrics a captured step starts from, unless the step before it has just ended on them."""
        if self._metrics is None:
            self._metrics = self._read_metrics()

    def _read_counters(self) -> dict[str, int]:
        fallbacks = [
            name for name in self._extension._xla_counter_names() if name.startswith(FALLBACK_PREFIX)
        ]
        return {name: counter(self._extension, name) for name in (*COUNTERS, *fallbacks)}

    def _read_metrics(self) -> dict[str, tuple[int, float]]:
        data = {name: self._extension._xla_metric_data(name) for name in METRICS}
        return {name: (values[0], values[1]) for name, values in data.items() if values}


def _metric_deltas(
    before: dict[str, tuple[int, float]] | None, after: dict[str, tuple[int, float]] | None
) -> dict[str, list[float]]:
    if before is None or after is None:
        return {}
    deltas = {}
    for name, (count, total) in after.items():
        old_count, old_total = before.get(name, (0, 0.0))
        if count != old_count:
            deltas[name] = [count - old_count, total - old_total]
    return deltas
