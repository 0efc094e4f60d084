"""Steps, their split, and what is typical of them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tpuprof import parts as part
from tpuprof.model.compile.recurrence import MIN_STEPS_LEFT
from tpuprof.model.cpu_plugin import native_seconds
from tpuprof.model.intervals import Int64
from tpuprof.model.median import median
from tpuprof.model.step_columns import Float64, StepColumns, step_columns
from tpuprof.model.steps.table import TYPICAL_UP_TO
from tpuprof.model.verdict_sentence import TAKE_TURNS
from tpuprof.model.verdict_words import NAMED_FROM_SHARE
from tpuprof.report.schema import CompileRow, StepSummary
from tpuprof.report.sections import PhaseRow, Steadiness
from tpuprof.signals.base import Unavailable, signal
from tpuprof.signals.inputs import COMPILES, DEVICES, HOST_EVENTS, STEPS
from tpuprof.signals.telemetry import TelemetrySignals
from tpuprof.units import MS_PER_S, PS_PER_MS


def ways_to_sample(framework: str) -> str:
    """How to have the training thread's stack sampled: recordings from outside do so with torch_xla alone."""
    way = "capture with `tpuprof capture -- ...`"
    return f"{way}, or call tpuprof.start_server in the program" if framework == "torch_xla" else way


class StepSignals(TelemetrySignals):
    """Steps and what of them is typical; times in ms, per step."""

    @signal("ms")
    def step_ms(self) -> float:
        """Mean wall time of all captured steps on all hosts."""
        return self.steps.mean_ms

    @signal("source")
    def step_source(self) -> StepSummary:
        """Where the steps come from, and how sure that is; the trace may have none."""
        return self._report.steps

    @signal("steps", needs=(STEPS,))
    def steps(self) -> StepColumns:
        """Every captured step of every host."""
        return step_columns(self._run.hosts)

    @signal("steps")
    def step_count(self) -> int:
        """Captured steps of the host that has most: what sums of one device are over."""
        return int(np.bincount(self.steps.host).max())

    @signal("steps")
    def typical_steps(self) -> StepColumns:
        """Steps that take at most 1.25 times the median: what a step is when nothing out of the ordinary happens."""
        steps = self.steps
        return steps.where(steps.wall_ms <= TYPICAL_UP_TO * median(steps.wall_ms))

    @signal("ms by part", needs=(STEPS, HOST_EVENTS))
    def typical_parts(self) -> dict[str, float]:
        """Mean of each part of the breakdown over the typical steps."""
        return self.typical_steps.mean_parts()

    @signal("ms", needs=(STEPS, HOST_EVENTS))
    def typical_tracing_ms(self) -> float:
        """Exposed tracing of a typical step; unavailable where too much host time may be tracing or other Python."""
        tracing = self.typical_parts.get(part.TRACING, 0.0)
        other = self.typical_parts.get(part.HOST_OTHER, 0.0)
        named = NAMED_FROM_SHARE * self.typical_ms
        if tracing < named <= tracing + other:
            sampled = any(host.activity.samples is not None for host in self._run.hosts)
            way = ways_to_sample(str(self._report.environment.get("framework")))
            raise Unavailable(
                "neither events nor samples distinguish tracing from other Python; "
                + ("capture more steps" if sampled else way)
            )
        return tracing

    @signal("ms")
    def typical_ms(self) -> float:
        """Mean wall time of the typical steps."""
        return self.typical_steps.mean_ms

    @signal("ms")
    def typical_device_idle_ms(self) -> float:
        """Time in a typical step in which the device is in no program."""
        return sum(ms for name, ms in self.typical_parts.items() if name not in part.DEVICE_PARTS)

    @signal("share", needs=(STEPS, DEVICES))
    def busy_share(self) -> float:
        """Share of all step time in which the device is in a program."""
        return sum(each.share for name, each in self._report.breakdown.items() if name in part.DEVICE_PARTS)

    @signal("yes or no", needs=(STEPS,))
    def sees_device(self) -> bool:
        """Whether the trace shows what a device does."""
        return any(host.devices for host in self._run.hosts)

    @signal("ms", needs=(STEPS, HOST_EVENTS))
    def unfinished_ms(self) -> float:
        """How long the device, or what hands programs to it, worked per step at least, as waits of reads show.

        Of a trace without a device plane; 0 where no read waits long enough to tell.
        """
        columns = [(host.breakdown.unfinished, host.breakdown.feeding) for host in self._run.hosts]
        sums = [sum(int(column.sum()) for column in each) for each in zip(*columns, strict=True)]
        worked = max(sums, default=0)
        return worked / PS_PER_MS / len(self.steps)

    @signal("ms by step row", needs=(STEPS, HOST_EVENTS))
    def own_waits_ms(self) -> Float64:
        """How long reads of each step of the slowest host wait for what that step hands over beyond the others' work.

        Of a trace without a device plane. The rest of such waits is for the work of all steps. Infinite where nothing
        tells: in the summary of a pod's host.
        """
        rows = self.slowest_host_steps
        name = rows.step(0).host
        (own,) = (host.own_waits for host in self._run.hosts if host.name == name)
        return np.full(len(rows), np.inf) if own is None else own / PS_PER_MS

    @signal("ms", needs=(STEPS,))
    def device_at_most_ms(self) -> float | None:
        """How long the device worked per step at most, where no device plane tells and it is this machine's CPU.

        None where that is unknown, and where it may have worked all the time.
        """
        found = native_seconds(self._run.info)
        if found is None or self.sees_device or len(self._run.hosts) != 1:
            return None
        worked = found * MS_PER_S / len(self.steps)
        return worked if worked < self.step_ms else None

    @signal("ms", needs=(STEPS, HOST_EVENTS))
    def tracing_hidden_ms(self) -> float:
        """Tracing a step behind device work, which costs nothing."""
        if self._report.tracing_hidden_ms_per_step is None:
            raise Unavailable("the trace has no steps")
        return self._report.tracing_hidden_ms_per_step

    @signal("steps", needs=(STEPS,))
    def steadiness(self) -> Steadiness:
        """How even the steps are, and which stand out."""
        return self._report.steadiness

    @signal("phases")
    def phases(self) -> list[PhaseRow]:
        """What the run did beside its steps: start-up, evaluation, checkpoints."""
        return self._report.phases

    @signal("text")
    def bound(self) -> str:
        """What the verdict says holds the run back."""
        return self._report.verdict.bound

    @signal("yes or no")
    def idles_in_reads(self) -> bool:
        """Whether the verdict is on reads in which the device idles, and not on turns that they force."""
        return self.bound == "sync" and TAKE_TURNS not in self._report.verdict.sentence

    @signal("share")
    def turns_at_most(self) -> float:
        """What reads cost at most by the verdict, where it is on the turns that they force alone; 1 elsewhere."""
        verdict = self._report.verdict
        alone = verdict.bound == "sync" and f"{TAKE_TURNS}, which costs" in verdict.sentence
        return verdict.share if alone else 1.0

    @signal("ms", needs=(STEPS, HOST_EVENTS))
    def idle_at_reads_ms(self) -> float:
        """Idle time of the device per step that reads of the same steps may answer for: what they block, at most."""
        from tpuprof.model.lost_in_turns import idle_at_reads  # only rules on reads ask for it

        return self._mean_ms(
            idle_at_reads(
                host.steps.wall_ps - host.breakdown.busy - host.breakdown.parts[part.COMPILE],
                host.breakdown.blocked,
            )
            for host in self._run.hosts
        )

    @signal("compiles", needs=(STEPS, COMPILES))
    def step_compiles(self) -> list[CompileRow]:
        """Compiles inside captured steps."""
        return [row for row in self._report.compiles if row.step is not None]

    @signal("compiles")
    def compiles_outside_steps(self) -> list[CompileRow]:
        """Compiles outside of the captured steps: before them, or between them in what is no training."""
        return [row for row in self._report.compiles if row.step is None]

    @signal("share", needs=(STEPS, COMPILES))
    def compile_share(self) -> float:
        """Share of all step time in which the device idles while XLA compiles."""
        return self._share(part.COMPILE)

    @signal("ms", needs=(STEPS,))
    def uncompiled_ms(self) -> float:
        """Mean step without the time in which the device idles while XLA compiles: what is left once compiles are gone.

        Where compiles take nearly all of the captured steps, a cause that takes most of the rest is still worth naming.
        """
        return self.step_ms - self.steps.mean_parts().get(part.COMPILE, 0.0)

    @signal("ms", needs=(STEPS,))
    def usual_step_ms(self) -> float:
        """Mean step with as many compiles as come after the capture, where fewer do than in it; else the mean step.

        So many compiles hide other causes: those of the captured steps may be the last of the start.
        """
        after, step, rest = self.after_capture, self.step_ms, self.uncompiled_ms
        quiet = int((self.steps.parts[part.COMPILE] == 0).sum()) if part.COMPILE in self.steps.parts else 0
        if after is None or quiet < MIN_STEPS_LEFT or not after.shows(len(self.steps)):
            return step
        return min(rest / (1 - after.compile_share), step)

    @signal("steps")
    def slowest_host_steps(self) -> StepColumns:
        """Captured steps of the host whose mean step is longest."""
        steps = self.steps
        by_host = [
            steps.where(steps.host == host) for host in np.flatnonzero(np.bincount(steps.host)).tolist()
        ]
        return max(by_host, key=lambda each: each.mean_ms)

    @signal("ms by step row")
    def idle_by_step(self) -> Float64:
        """Time in which the device idles and XLA does not compile, of each step of the slowest host.

        Steps of a host that runs ahead of its device are uneven by nature: it waits in some and not in others. What
        the host's own work adds to a step shows in the device's idle time.
        """
        steps = self.slowest_host_steps
        beside = np.zeros(len(steps))
        for name in (*part.DEVICE_PARTS, part.COMPILE):
            beside += steps.parts.get(name, 0.0)
        return steps.wall_ms - beside

    @signal("step rows")
    def even_rows(self) -> tuple[Int64, Int64]:
        """Rows of the slowest host's steps that are even, and of those that idle longer than usual.

        Longer by more than a quarter of the median step, as for typical steps.
        """
        idle = self.idle_by_step
        limit = median(idle) + (TYPICAL_UP_TO - 1) * median(self.slowest_host_steps.wall_ms)
        return np.flatnonzero(idle <= limit), np.flatnonzero(idle > limit)

    def costs_of(self, names: Iterable[str]) -> list[float]:
        """What those parts of the breakdown take of each step (ms)."""
        steps, nothing = self.steps, np.zeros(len(self.steps))
        costs: list[float] = sum((steps.parts.get(name, nothing) for name in names), nothing).tolist()
        return costs

    def _mean_ms(self, columns: Iterable[Int64]) -> float:
        """The mean of times by step (ps), of one column per host (ms per step); 0 without steps."""
        every = list(columns)
        steps = sum(len(each) for each in every)
        return sum(int(each.sum()) for each in every) / steps / PS_PER_MS if steps else 0.0

    def _share(self, name: str) -> float:
        if not self._report.breakdown:
            raise Unavailable("the trace has no steps; mark them with tpuprof.step and capture again")
        return self._report.breakdown[name].share if name in self._report.breakdown else 0.0
