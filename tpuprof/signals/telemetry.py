"""What the run folder notes of the process: counters, start-up compiles, versions, flags, features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuprof.chips import chip_of
from tpuprof.model.busy_machine import cpus_there
from tpuprof.model.compile.cause import EXPLAINED
from tpuprof.model.compile.recurrence import AfterCapture
from tpuprof.model.cpu_plugin import on_cpu_plugin
from tpuprof.model.host_run import HostRun
from tpuprof.model.python_tools import python_tools
from tpuprof.model.run_facts import defers_ops, noted_by_dynamo
from tpuprof.model.telemetry import (
    StepRecord,
    compile_lines_before,
    compile_seconds_before,
    longest_compile_before,
)
from tpuprof.records import record as frozen
from tpuprof.report.sections import CompilationCache, FallbackRow, Hosts
from tpuprof.signals.base import SignalsBase, Unavailable, signal
from tpuprof.signals.inputs import DEVICES

if TYPE_CHECKING:
    from tpuprof.model.compile.later_looks import CompilingLooks
    from tpuprof.model.compile.start_graphs import StartGraphs
    from tpuprof.model.later_places import LaterPlace
    from tpuprof.model.long_later import LongLater


@frozen(frozen=True)
class GraphBreak:
    """A line at which torch.compile broke the graph: `source` is `file:line`, `reason` dynamo's own words."""

    source: str
    reason: str
    function: str


@frozen(frozen=True)
class CompileLimit:
    """A function at `source` (`file:line`) that torch.compile compiled `times`, as often as it may.

    `reason` is what did not hold the last time, in dynamo's own words.
    """

    source: str
    reason: str
    times: str


class TelemetrySignals(SignalsBase):
    """What the training process noted of itself."""

    @signal("steps")
    def records(self) -> list[StepRecord]:
        """What the training process noted of each step, the ones before the capture included."""
        found = self.records_if_noted
        if not found:
            raise Unavailable(
                "the run folder has no telemetry; capture with `tpuprof capture` or tpuprof.profile"
            )
        return found

    @signal("steps")
    def records_if_noted(self) -> list[StepRecord]:
        """The same, empty where the run folder has none: for rules that only add to what they know."""
        return [record for host in self._run.hosts for record in host.records]

    @signal("steps")
    def captured_records(self) -> list[StepRecord]:
        """What the training process noted of the captured steps."""
        found = [record for record in self.records if record.captured]
        if not found:
            raise Unavailable(
                "no captured step has telemetry: the capture ended before its first step did, or went by the clock"
            )
        return found

    @signal("counts per step")
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
        """Graph cuts that compiled, before the captured steps: tracing, hashing and compiling of those cuts.

        Of a predicted run, what the TPU compiler took for the step on the machine that predicted it. Hosts compile at
        the same time: of several, the one that took longest.
        """
        told = [each.compile_seconds for each in self._run.preflight[:1] if each.compile_seconds is not None]
        if self._run.predicted and told:
            return told[0]
        return compile_seconds_before(self._slowest_start())

    def _slowest_start(self) -> list[StepRecord]:
        """The notes of the host that compiled longest before its captured steps."""
        hosts = [host.records for host in self._run.hosts if host.records] or [self.records]
        return max(hosts, key=compile_seconds_before)

    @signal("share")
    def startup_longest_line_share(self) -> float:
        """Share of the time of compiles before the captured steps that the line has which compiled longest."""
        lines = compile_lines_before(self.records)
        total = sum(lines.values())
        return max(lines.values()) / total if total > 0 else 1.0

    @signal("share")
    def startup_unlined_share(self) -> float:
        """Share of the time of compiles before the captured steps that is of no line, as of graphs that reads run."""
        lines = compile_lines_before(self.records)
        total = sum(lines.values())
        return lines.get("", 0.0) / total if total > 0 else 0.0

    @signal("s")
    def startup_short_compile_seconds(self) -> float:
        """Of `startup_compile_seconds`, compiles of less than a second each, which JAX's cache does not keep."""
        short = sum(record.short_seconds for record in self._slowest_start() if record.before)
        return min(short, self.startup_compile_seconds)

    @signal("text")
    def startup_compile_source(self) -> str:
        """Line of the program (`file:line`) that compiled longest before the captured steps; may be empty."""
        return longest_compile_before(self.records)

    @signal("steps")
    def startup_compiles(self) -> int:
        """Graphs compiled before the captured steps; of several hosts, by the one that took longest."""
        return sum(record.compiles for record in self._slowest_start() if record.before)

    @signal("graphs")
    def start_graphs(self) -> StartGraphs | None:
        """The first steps, where each compiled a graph of its own; None where few did, or their graphs are unknown."""
        return next((host.start for host in self._run.hosts if host.start is not None), None)

    @signal("ops")
    def fallbacks(self) -> list[FallbackRow]:
        """Ops that ran on the host in captured steps because XLA has no lowering for them, with their lines."""
        rows = self._report.fallbacks
        if any(row.per_step is None for row in rows):
            names = ", ".join(row.op for row in rows)
            raise Unavailable(
                f"torch_xla's text names ops that fell back ({names}), but not how often per step; capture with "
                "`tpuprof capture`"
            )
        if not rows and not self.captured_records:
            return []
        return rows

    @signal("status")
    def compilation_cache(self) -> CompilationCache:
        """The persistent compilation cache: off, ok, cold, never_loads, or unknown where nothing was looked up."""
        found = self._report.compilation_cache
        if found.hits is None:
            raise Unavailable(
                found.detail.removeprefix("unavailable: ")
                or "the run folder has none of torch_xla's counters"
            )
        return found

    @signal("yes or no")
    def falls_back(self) -> bool:
        """Whether ops fall back to the host; no where the run folder has no counters to tell."""
        try:
            return bool(self.fallbacks)
        except Unavailable:
            return False

    @signal("graphs")
    def graphs_per_step(self) -> float:
        """Graphs handed over in a captured step, compiled again or not; the median step's."""
        graphs = [record.graphs for record in self.captured_records]
        import statistics

        return statistics.median(graphs)

    @signal("notes")
    def info(self) -> dict[str, Any]:
        """Tpuprof's own notes on the run: versions, flags, features, how it was captured."""
        if not self._run.info:
            raise Unavailable(
                "the run folder has no run.json; capture with `tpuprof capture` or tpuprof.profile"
            )
        return self._run.info

    @signal("names")
    def python_tools(self) -> list[str]:
        """Debugging tools of Python or of the framework that were on while the run was captured."""
        found = python_tools(self.info)
        if found is None:
            raise Unavailable("the capture did not look for debugging tools of Python")
        return found

    @signal("names")
    def python_tools_if_noted(self) -> list[str]:
        """The same, empty where run.json has none: for rules that only add to what they know."""
        return python_tools(self._run.info or {}) or []

    @signal("yes or no")
    def predicted(self) -> bool:
        """Whether the run was predicted by a preflight: no program trained."""
        return self._run.predicted

    @signal("breaks")
    def noted_graph_breaks(self) -> list[GraphBreak]:
        """Lines at which torch.compile broke the graph, as dynamo noted them; empty where run.json has none."""
        return [
            GraphBreak(*(str(each.get(name) or "") for name in ("source", "reason", "function")))
            for each in noted_by_dynamo(self._run.info, "breaks")
        ]

    @signal("functions")
    def noted_compile_limits(self) -> list[CompileLimit]:
        """Functions that torch.compile compiled as often as it may, as dynamo noted; empty where run.json has none."""
        return [
            CompileLimit(*(str(each.get(name) or "") for name in ("source", "reason", "times")))
            for each in noted_by_dynamo(self._run.info, "limits")
        ]

    @signal("words")
    def command_if_noted(self) -> list[str]:
        """The command line of the program, empty where run.json does not say it."""
        said = self._run.info.get("command_line") or self._run.info.get("command") or []
        words = said.split() if isinstance(said, str) else said
        return [str(each) for each in words]

    @signal("steps")
    def after_capture(self) -> AfterCapture | None:
        """What the process counted after the captured steps; None where the run folder has nothing of it."""
        return next((host.after for host in self._run.hosts if host.after is not None), None)

    @signal("steps")
    def long_later_steps(self) -> LongLater | LaterPlace | None:
        """Steps after the capture that take far longer than their like; None where none do, or none was noted.

        Of a program without steps, a place at which the host is then, and never was in the capture.
        """
        found = [host.long_later for host in self._run.hosts]
        return max((each for each in found if each is not None), key=lambda each: each.share, default=None)

    @signal("looks")
    def compiling_looks_if_seen(self) -> CompilingLooks | None:
        """Compiles that looks at the training thread saw after a recording by the clock; None where that is little."""
        if not any(host.looks for host in self._run.hosts):
            return None
        from tpuprof.model.compile.later_looks import most_compiling

        return most_compiling(self._run.hosts)

    @signal("CPUs")
    def cpus(self) -> float:
        """How many CPUs the program may use; 0 where the capture does not say."""
        return cpus_there(self._run.info)

    @signal("words")
    def compiles_return(self) -> str:
        """Whether compiles of the captured steps come again: yes, never, unknown; empty where none compiles."""
        return self._report.compile_history.returns

    @signal("variables")
    def variables(self) -> dict[str, str]:
        """Environment variables of XLA, PJRT, TPU and torch_xla as the user set them."""
        found = self.info.get("environment")
        if not isinstance(found, dict):
            raise Unavailable("run.json does not say which environment variables were set")
        return {str(name): str(value) for name, value in found.items()}

    @signal("yes or no")
    def explains_misses(self) -> bool:
        """Whether JAX was asked why it traces functions again (`jax_explain_cache_misses`)."""
        if any(EXPLAINED in row.cause.detail for row in self._report.compiles):
            return True
        environment = self._run.info.get("environment")
        said = environment.get("JAX_EXPLAIN_CACHE_MISSES") if isinstance(environment, dict) else None
        return str(said or "0").lower() not in ("0", "false", "off")

    @signal("yes or no")
    def defers_ops(self) -> bool:
        """Whether TorchTPU defers and fuses ops, by the program or its environment; no where run.json says neither."""
        return defers_ops(self._run.info)

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

    @signal("true or false")
    def is_cpu_plugin(self) -> bool:
        """Whether TorchTPU ran on XLA's CPU plugin, as run.json says."""
        return on_cpu_plugin(self._run.info)

    @signal("hosts")
    def hosts(self) -> list[HostRun]:
        """Each host's own run."""
        return self._run.hosts

    @signal("chips", needs=(DEVICES,))
    def chips_per_host(self) -> int:
        """Devices in the trace of the host that has most."""
        return max(len(host.devices) for host in self._run.hosts)

    @signal("host rows")
    def host_pace(self) -> Hosts:
        """How evenly the hosts go, and which comes last."""
        return self._report.hosts

    @signal("notes")
    def missing(self) -> list[str]:
        """What is known to be missing from the capture. A program that ended before all were captured lost nothing."""
        notes = []
        expected = self._run.info.get("process_count")
        if isinstance(expected, int) and len(self.hosts) < expected:
            notes.append(f"{len(self.hosts)} of {expected} processes left a profile")
        for host in self.hosts:
            notes += [f"{host.name}: {note}" for note in host.warnings]
            if not host.devices and _has_device(host):
                notes.append(f"{host.name}: no device activity")
        return notes

    @signal("text")
    def framework(self) -> str:
        """The framework whose host events the trace holds: torch_xla, torch_tpu, jax, pytorch (a GPU) or unknown."""
        return str(self._report.environment.get("framework") or "unknown")

    @signal("text")
    def device_type(self) -> str:
        """What the devices call themselves, CPU for the host's own; empty where the trace shows no device."""
        return str(self._report.environment.get("device_type") or "")

    @signal("chip")
    def chip(self) -> str:
        """The generation of the devices: v5e, v6e."""
        found = chip_of(self.device_type)
        if found is None:
            raise Unavailable("the trace does not say which chip this is")
        return found.name

    @signal("yes or no")
    def is_tpu(self) -> bool:
        """Whether the devices are TPUs."""
        if not self.device_type:
            raise Unavailable("the trace has no device activity; capture on the machine that holds the TPU")
        return "TPU" in self.device_type.upper()


def _has_device(host: HostRun) -> bool:
    """Whether the profile of a host has to hold device activity to be whole."""
    if host.framework == "torch_tpu":
        # No plugin but the TPU's own has a device plane: the warnings say that it is not there.
        return False
    # PyTorch on the CPU has no device of its own, and calls no GPU's runtime.
    return host.framework != "pytorch" or host.gpus is not None or "gpu_calls" in host.named_events
