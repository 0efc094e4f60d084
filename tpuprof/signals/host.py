"""What training threads do: values they read, events that rules ask for by name."""

from __future__ import annotations

import numpy as np

from tpuprof import parts as part
from tpuprof.model.busy_machine import (
    DISTURBED_FROM_SHARE,
    DOUBTFUL_FROM_SHARE,
    cpu_use,
    cpu_wait,
    short_of_cpus,
)
from tpuprof.model.compile.growth import graphs_grow
from tpuprof.model.host.blocking_waits import WAIT_FROM_PS
from tpuprof.model.host.eager_dispatch import CompiledParts, EagerDispatch
from tpuprof.model.host.eager_mode import EagerOps
from tpuprof.model.host.reads import CALLS
from tpuprof.model.host.vocabulary import TORCH_XLA, Activity
from tpuprof.model.host_run import HostRun
from tpuprof.model.in_few_steps import few_of
from tpuprof.model.intervals import EMPTY, covered, intersect, subtract
from tpuprof.model.read_graphs import ReadGraphs, again_by_step
from tpuprof.model.run import Run
from tpuprof.model.run_facts import frameworks_stated, sampled_late
from tpuprof.model.step_columns import Float64
from tpuprof.model.steps.table import StepSource
from tpuprof.model.verdict_words import READS_IN_STEPS_SHARE
from tpuprof.report.schema import HostReadRow
from tpuprof.report.sections import GraphCutRow, HostStackRow, InputRow, Tracing
from tpuprof.signals.base import Unavailable, signal
from tpuprof.signals.inputs import DEVICES, HOST_EVENTS, STEPS
from tpuprof.signals.steps import StepSignals, ways_to_sample
from tpuprof.units import PS_PER_MS

# Steps from which it is no accident that none of them cut (steps): a program may cut every second one. A judgement.
UNCUT_FROM_STEPS = 4
# Steps before the capture that never cut, from which the program does not (steps): a step that compiles each of its
# reads may take a minute, so that few are seen. A judgement.
UNCUT_BEFORE_FROM = 2
_CUTS = "MarkStep"
# Reads of a step from which most gaps are between reads of ready values (reads): one gap holds the wait of the first
# read, one the rest of the step, so that of five gaps three do, and the middle one is among them.
SEVERAL_READS = 5
# Steps in which a graph cut waits until its program has taken buffers over, from which the cuts of a cured program may
# as well (share). A tenth, as of all causes: a wait in fewer steps takes little of what a fix gains.
CUT_WAITS_FROM_SHARE = 0.1
# Ops are traced where torch_xla makes tensors.
_TENSORS_MADE = "CreateXlaTensor"
# The vocabulary's name of the event in which a buffer is given up that a program takes over.
_TAKEN_OVER = "donation_wait"
# Its name of an optimizer's call, and what the host does while it reads a value.
_OPTIMIZER, _READ = "optimizer", Activity.DEVICE_TO_HOST_SYNC
# Parts of a step that only torch_xla makes.
_OF_TORCH_XLA = (part.TRACING, part.COMPILE, part.DISPATCH, part.HOST_TO_DEVICE, part.HOST_SYNC)


def uncut_in(host: HostRun) -> int:
    """Steps in which nothing cut the graph but reads of values, though each of them updates weights; else 0.

    An optimizer's call in each step tells that. Without one in the capture, graphs do that each have more ops than the
    one before: they hold the steps before them. So do steps before the capture that never cut.
    """
    steps, stepped = len(host.steps), host.optimizer_steps
    if host.steps.source is StepSource.READS:
        return steps if graphs_grow(host.compiles) or _never_cut(host) else 0
    if host.framework != "torch_xla" or steps < UNCUT_FROM_STEPS or stepped < steps - 1:
        return 0
    if any(cut.call not in CALLS for cut in host.graph_cuts):
        return 0
    if host.graph_cuts:
        return stepped
    # No graph at all: the process's own counters must say so.
    captured = [each for each in host.records if each.captured]
    traced = bool(captured) and all(each.counters.get(_TENSORS_MADE, 0) for each in captured)
    return stepped if traced and not any(each.graphs for each in captured) else 0


def _never_cut(host: HostRun) -> bool:
    """Whether the process noted steps, no cut in any, and a graph of its own for each read."""
    noted = [each for each in host.records if each.is_step]
    return (
        host.framework == TORCH_XLA
        and len(noted) >= UNCUT_BEFORE_FROM
        and all(each.compiles and each.compiles == each.graphs for each in noted)
        and not any(each.counters.get(_CUTS) for each in host.records)
    )


def off_device_in(host: HostRun) -> int:
    """Captured steps of a host, where none of them made a tensor of torch_xla or ran a graph; else 0.

    A trace that holds no event of torch_xla at all does not name its framework: the capture does. What samples take
    for tracing in PyTorch's code is then PyTorch's own work.
    """
    if host.devices:
        return 0
    captured = [each for each in host.records if each.captured]
    # A step that cuts counts that, where anything is counted. One that does not has nothing of torch_xla in the trace.
    nameless = host.framework != TORCH_XLA
    known = (
        all(each.counters for each in captured)
        or nameless
        or not any(
            name in host.breakdown.parts and host.breakdown.parts[name].any() for name in _OF_TORCH_XLA
        )
    )
    used = any(each.graphs or each.counters.get(_TENSORS_MADE, 0) for each in captured)
    return len(captured) if known and not used else 0


def off_device_steps(run: Run) -> int:
    """Captured steps of torch_xla that computed nothing on the device; 0 where a step did, or nobody counted."""
    if frameworks_stated({host.framework for host in run.hosts}, run.info) != "torch_xla":
        return 0
    found = [off_device_in(host) for host in run.hosts]
    return sum(found) if found and all(found) else 0


def steps_without_a_graph(hosts: list[HostRun]) -> int:
    """Steps in which no graph ran, as nothing cuts one and nothing reads a value; 0 where any host runs one."""
    found = [0 if host.graph_cuts else uncut_in(host) for host in hosts]
    return sum(found) if found and all(found) else 0


class HostSignals(StepSignals):
    """What training threads do; times in ms, per step."""

    @signal("reads", needs=(STEPS, HOST_EVENTS))
    def host_reads(self) -> list[HostReadRow]:
        """Device-to-host reads in steps, the runtime's transfers where the program's own reads are unknown.

        Those of most steps stand first, as in the verdict: a read that happens once, at the end say, waits longest.
        """
        often = READS_IN_STEPS_SHARE * len(self.steps)
        return sorted(self._report.host_reads, key=lambda row: row.occurrences < often)

    @signal("reads", needs=(STEPS, HOST_EVENTS))
    def python_reads(self) -> list[HostReadRow]:
        """Device-to-host reads by the user's own Python (`.item()`, `print`, ...), with their lines."""
        return _by_python(self.host_reads)

    @signal("reads", needs=(STEPS,))
    def python_reads_if_seen(self) -> list[HostReadRow]:
        """The same, empty where the trace has no host events: for rules that only add to what they know."""
        return _by_python(self._report.host_reads)

    @signal("share", needs=(STEPS, HOST_EVENTS))
    def reads_in_steps_share(self) -> float:
        """Share of steps that hold a blocking device-to-host read."""
        count = sum(len(host.steps) for host in self._run.hosts)
        return sum(int((host.breakdown.host_reads > 0).sum()) for host in self._run.hosts) / count

    @signal("steps", needs=(STEPS, HOST_EVENTS))
    def uncut_steps(self) -> int:
        """Steps that ended with an optimizer while nothing cut the graph but reads of values; 0 where something cut.

        Told where tpuprof put optimizers, cuts and reads on the timeline, of `UNCUT_FROM_STEPS` and more.
        """
        found = [uncut_in(host) for host in self._run.hosts]
        return sum(found) if all(found) else 0

    @signal("steps")
    def off_device(self) -> int:
        """Captured steps that computed nothing on the XLA device, by the process's own counters; 0 where one did."""
        return off_device_steps(self._run)

    @signal("cuts", needs=(STEPS, HOST_EVENTS))
    def cutting_reads(self) -> list[GraphCutRow]:
        """Reads of values that ran graphs in the steps, the most frequent first."""
        return [row for row in self._report.graph_cuts if row.call in CALLS]

    @signal("cuts", needs=(STEPS, HOST_EVENTS))
    def cutting_lines(self) -> list[GraphCutRow]:
        """Lines that handed graphs over in the steps, the most frequent first; empty where no line is known."""
        return [row for row in self._report.graph_cuts if row.source]

    @signal("share", needs=(STEPS, HOST_EVENTS))
    def copied_again(self) -> float:
        """Share of the time of copies to the device in steps that copies an array again; of the host with least."""
        return min((host.copied_again for host in self._run.hosts), default=0.0)

    @signal("name", needs=(STEPS, HOST_EVENTS))
    def copied_for(self) -> str:
        """The jitted function whose calls are given most of what is copied to the device; empty where none is."""
        return next((host.copied_for for host in self._run.hosts if host.copied_for), "")

    @signal("line", needs=(STEPS, HOST_EVENTS))
    def copied_at(self) -> str:
        """The line whose calls take most of the time of copies to the device; empty where none does."""
        return next((host.copied_at for host in self._run.hosts if host.copied_at), "")

    @signal("ms", needs=(STEPS, HOST_EVENTS))
    def copying_ms(self) -> float:
        """How long the host copies to the device per step, also in threads of the runtime and beside its other work."""
        steps = sum(len(host.steps) for host in self._run.hosts)
        return sum(host.copying_ps for host in self._run.hosts) / steps / PS_PER_MS if steps else 0.0

    @signal("programs", needs=(STEPS, HOST_EVENTS))
    def read_graphs(self) -> list[ReadGraphs]:
        """Programs that reads of values ran in mid-step, by line, and what of them the step computed again."""
        found = [each for host in self._run.hosts for each in host.read_graphs]
        return sorted(found, key=lambda each: -each.again_ps)

    @signal("ms by step row", needs=(STEPS, HOST_EVENTS))
    def computed_again_ms(self) -> Float64:
        """Work of the device in each step that reads ran by themselves, and that the step computes as well."""
        columns = [again_by_step(host.read_graphs, len(host.steps)) for host in self._run.hosts]
        return np.concatenate([np.empty(0, np.int64), *columns]) / PS_PER_MS

    @signal("ms", needs=(STEPS,))
    def again_for_ops_ms(self) -> float:
        """Work of the device per step that ran for what ops on the host take in, and that the step computes as well."""
        return self._mean_ms(again_by_step(host.fallback_graphs, len(host.steps)) for host in self._run.hosts)

    @signal("yes or no", needs=(STEPS, HOST_EVENTS))
    def cut_may_wait(self) -> bool:
        """Whether a graph cut may wait for its own program: the CPU client does, for buffers that programs take over.

        In some steps it does, in others not: that is a race of two threads, and another program may lose it more often.
        One that loses it in next to no step will hardly lose it when it is cured.
        """
        found = 0
        for host in self._run.hosts:
            if any(each.type == "CPU" for each in host.devices):
                taken = host.named_events.get(_TAKEN_OVER, EMPTY)
                long = taken.start[taken.end - taken.start >= WAIT_FROM_PS]
                inside = np.searchsorted(host.steps.start, long, "right") - 1
                found += len(np.unique(inside[host.steps.hold(long)]))
        return found >= CUT_WAITS_FROM_SHARE * len(self.steps) > 0

    @signal("ms", needs=(STEPS, HOST_EVENTS))
    def graphs_for_reads_ms(self) -> float:
        """Time per step in which the device idles while the host makes graphs that reads of values run."""
        made = sum(int(host.breakdown.for_reads.sum()) for host in self._run.hosts)
        return made / PS_PER_MS / len(self.steps)

    @signal("ms", needs=(STEPS, HOST_EVENTS))
    def runtime_wait_ms(self) -> float:
        """Time per step that training threads wait for the device inside the runtime: for buffers, or for a program."""
        waited = sum(int(host.breakdown.waited.sum()) for host in self._run.hosts)
        return waited / PS_PER_MS / len(self.steps)

    @signal("ms", needs=(STEPS, HOST_EVENTS))
    def ready_reads_ms(self) -> float:
        """What reads of values that are ready take of a step, with what the profiler adds to each.

        Where a step reads several values of one program, the first read waits and the others find their values ready:
        they follow one another as fast as the host can read. 0 where a step reads fewer: nothing tells them apart.
        """
        total = 0.0
        for host in self._run.hosts:
            begins = host.activity.spans(Activity.DEVICE_TO_HOST_SYNC).start
            begins = begins[host.steps.hold(begins)]
            if len(begins) >= SEVERAL_READS * len(host.steps) > 0:
                total += float(np.median(np.diff(begins))) * (len(begins) - len(host.steps))
        return total / PS_PER_MS / len(self.steps)

    @signal("ms", needs=(STEPS, HOST_EVENTS))
    def unwaited_reads_ms(self) -> float:
        """Time per step of reads that wait for nothing: a device that is this machine's CPU idles all the while."""
        ready = sum(int(host.breakdown.ready.sum()) for host in self._run.hosts)
        return ready / PS_PER_MS / len(self.steps)

    @signal("ms", needs=(STEPS, HOST_EVENTS))
    def optimizer_reads_ms(self) -> float:
        """Time per step that training threads wait for values in optimizer calls, of optimizers that have an event."""
        total = 0
        for host in self._run.hosts:
            calls, reads = host.named_events.get(_OPTIMIZER, EMPTY), host.activity.spans(_READ)
            total += int(covered(intersect(calls, reads), host.steps.start, host.steps.end).sum())
        return total / PS_PER_MS / len(self.steps)

    @signal("share")
    def cpu_wait_share(self) -> float:
        """Share of the time that the program's threads could run in which they waited for a CPU."""
        found = cpu_wait(self._run.info)
        if found is None:
            raise Unavailable("the capture does not say how long the program's threads waited for a CPU")
        return found

    @signal("yes or no")
    def cpus_shared(self) -> bool:
        """Whether threads of the program waited for a CPU so much that the same work takes clearly longer at times."""
        return (cpu_wait(self._run.info) or 0.0) >= DISTURBED_FROM_SHARE

    @signal("yes or no")
    def cpus_short(self) -> bool:
        """Whether a device that is this machine's CPU and the host take CPUs from each other."""
        return bool(short_of_cpus(self._run.info))

    @signal("share")
    def cpus_free_share(self) -> float | None:
        """Share of the CPUs' time that the program did not use; None where the capture does not say.

        A program whose device is this machine's CPU can save no more than that by working side by side with it.
        """
        found = cpu_use(self._run.info)
        return None if found is None or len(self._run.hosts) > 1 else 1 - found

    @signal("yes or no")
    def cpus_taken(self) -> bool:
        """Whether threads of the program waited for a CPU for half of the time that they could have run."""
        return (cpu_wait(self._run.info) or 0.0) >= DOUBTFUL_FROM_SHARE

    @signal("stacks", needs=(STEPS, HOST_EVENTS))
    def host_stacks(self) -> list[HostStackRow]:
        """Sampled Python stacks of training threads, by the part of the breakdown they went to."""
        if not any(host.activity.samples is not None for host in self._run.hosts):
            way = ways_to_sample(str(self._report.environment.get("framework")))
            raise Unavailable(f"the capture has no samples of the training thread's stack; {way}")
        return self._report.host_stacks

    @signal("yes or no", needs=(STEPS, HOST_EVENTS))
    def sampled_late(self) -> bool:
        """Whether samples may show a later line than the one that took the time."""
        return sampled_late(self._run.info)

    @signal("stacks", needs=(STEPS, HOST_EVENTS))
    def stacks_if_sampled(self) -> list[HostStackRow]:
        """The same, empty where the capture has no samples: for rules that only add a line to what they know."""
        return self._report.host_stacks

    @signal("ms by part", needs=(STEPS, HOST_EVENTS))
    def sampled_host_ms(self) -> dict[str, float]:
        """Time per step in which the device idles and samples show the host at something else than tracing, by part.

        Annotations that trace nothing and garbage collections count too; where few steps hold nearly all of such a
        time, as far as typical steps hold it.
        """
        mean = self.steps.mean_parts()
        sums = {
            name: min(ms, mean.get(name, 0.0)) if few_of(self.costs_of([name])) else mean.get(name, 0.0)
            for name, ms in self.typical_parts.items()
            if name.startswith(part.USER_PREFIX) and name != part.OWN_WORK and ms
        }
        for row in self.host_stacks:
            if row.part.startswith(part.HOST_PREFIX):
                sums[row.part] = sums.get(row.part, 0.0) + row.exposed_ms_per_step
        return sums

    @signal("per step", needs=(STEPS, HOST_EVENTS))
    def scan_retraces(self) -> float:
        """How often per step the body of a scan is traced again: 0 with its cache on, and where nothing tells."""
        return self.tracing.scan_retraces_per_step or 0.0

    @signal("ms per step", needs=(STEPS, HOST_EVENTS))
    def tracing(self) -> Tracing:
        """What tracing is made of, by phase and by annotation."""
        return self._report.tracing

    @signal("pipelines", needs=(STEPS, HOST_EVENTS))
    def input_pipelines(self) -> list[InputRow]:
        """How each host's input pipeline keeps up with its steps."""
        return self._report.input

    @signal("ms by event", needs=(STEPS, HOST_EVENTS))
    def event_ms(self) -> dict[str, float]:
        """Time per step that training threads work in each named event (`scan_trace`, `graph_cut`).

        Waits for the device inside them are left out.
        """
        totals: dict[str, float] = {}
        for host in self._run.hosts:
            for name, spans in host.named_events.items():
                working = subtract(spans, host.activity.spans(Activity.DEVICE_WAIT))
                inside = int(covered(working, host.steps.start, host.steps.end).sum())
                totals[name] = totals.get(name, 0.0) + inside / PS_PER_MS
        return {name: ms / len(self.steps) for name, ms in totals.items()}

    @signal("times by event", needs=(STEPS, HOST_EVENTS))
    def event_count(self) -> dict[str, float]:
        """How often per step training threads enter each named event."""
        totals: dict[str, int] = {}
        for host in self._run.hosts:
            for name, spans in host.named_events.items():
                if len(host.steps):
                    inside = (spans.start >= host.steps.start[0]) & (spans.start < host.steps.end[-1])
                    totals[name] = totals.get(name, 0) + int(inside.sum())
        return {name: count / len(self.steps) for name, count in totals.items()}

    @signal("ops", needs=(STEPS, HOST_EVENTS))
    def eager_ops(self) -> EagerOps | None:
        """Ops of a step that eager mode ran one by one, of the host that has most; None outside eager mode."""
        found = [host.eager_ops for host in self._run.hosts if host.eager_ops is not None]
        return max(found, key=lambda each: each.per_step, default=None)

    @signal("per step", needs=(STEPS, HOST_EVENTS))
    def eager_dispatch(self) -> EagerDispatch | None:
        """What a step dispatches on an eager framework, of the host that dispatches most; None on others."""
        found = [host.eager for host in self._run.hosts if host.eager is not None]
        return max(found, key=lambda each: each.ops, default=None)

    @signal("per step", needs=(STEPS, HOST_EVENTS, DEVICES))
    def compiled_parts(self) -> CompiledParts | None:
        """What a step calls of torch.compile under torch_xla, of the host that it takes longest; None without calls."""
        found = [host.compiled_parts for host in self._run.hosts if host.compiled_parts is not None]
        return max(found, key=lambda each: each.parts_ps, default=None)


def _by_python(rows: list[HostReadRow]) -> list[HostReadRow]:
    return [row for row in rows if row.call in CALLS]
