"""What a report says of the capture itself, beside its findings: what is missing, what makes it doubtful."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tpuprof.model.host_run import HostRun
from tpuprof.model.intervals import Int64
from tpuprof.model.outside_capture import between_steps, outside_capture, quicker_compiles, stretched
from tpuprof.model.run import Run
from tpuprof.model.run_facts import noted_by_dynamo
from tpuprof.model.steps.table import StepSource
from tpuprof.parts import COMPILE
from tpuprof.report.schema import CompileRow

# Calls of a step from which what recording adds to each makes the step clearly longer (calls): with some 10 us for each
# of them, 50 calls take half a millisecond. Steps of 97, 1,005 and 2,527 calls took 2.2, 1.1 and 1.6 times as long. A
# judgement.
SLOWED_FROM_CALLS = 50


def run_warnings(run: Run, compiles: Sequence[CompileRow] = ()) -> list[str]:
    """Each with the host it is of. `compiles` are those that the captures hold."""
    notes = [*run.warnings, *_unlike(run.hosts)]
    again = bool(noted_by_dynamo(run.info, "recompiles"))
    for host in run.hosts:
        longer = outside_capture(host.steps.wall_ps, host.after_steps, between_steps(host.steps))
        notes += [f"{host.name}: {note}" for note in host.warnings]
        notes += [
            f"{host.name}: {note}"
            for note in (
                # Where the long ones among them are known, the verdict says what they do.
                *(longer if host.long_later is None else []),
                *stretched(host.steps.wall_ps, _compiling(host), host.after_steps, dynamo=again),
                *quicker_compiles(_compiling(host), host.after_steps),
                *([host.later_part.warning] if host.later_part is not None else []),
                *_unmarked_calls(host),
                *_in_no_finding(host, compiles),
            )
        ]
        notes += [f"{host.name}: {note}" for note in host.notes]
        if host.gpus is not None and host.gpus.text:
            notes.append(f"{host.name}: {host.gpus.text}")
        elif not host.devices:
            notes.append(f"{host.name}: {_without_device(run, host)}")
        if host.activity.driver is None and host.gpus is None and not run.predicted:
            notes.append(f"{host.name}: no training thread was recognised, so idle time cannot be named")
    return notes


def _unlike(hosts: list[HostRun]) -> list[str]:
    """What to say of hosts of which a mean describes none."""
    if len(hosts) < 2:
        return []
    from tpuprof.model.unlike_hosts import unlike_hosts

    return unlike_hosts(hosts)


def _without_device(run: Run, host: HostRun) -> str:
    """What figures are of where the trace of a host shows no device."""
    if any(each.devices for each in run.hosts) and not len(host.steps):
        return "no device activity in the trace: its steps are in no figure of the run"
    return (
        "no device activity in the trace, so shares are of what the host does; whether the device works meanwhile is "
        "unknown"
    )


def _compiling(host: HostRun) -> Int64:
    """What each step of a host waits for compiles (ps)."""
    return host.breakdown.parts.get(COMPILE, np.zeros(len(host.steps), np.int64))


def _unmarked_calls(host: HostRun) -> list[str]:
    """What to say of steps of many calls, which recording makes longer, where no step after the capture was counted.

    An episode of 97 calls took 8.7 ms, and 19 ms as it was recorded.
    """
    eager = host.eager
    if eager is None or not eager.called or eager.programs < SLOWED_FROM_CALLS:
        return []
    if host.steps.source is not StepSource.CALLS or host.after_steps is not None or not host.records:
        return []
    calls = f"{eager.programs:,.0f}"
    uneven = "" if not eager.programs % 1 else f" ({calls} on average: not all steps hold as many)"
    return [
        f"recording makes each of the {calls} calls of a step slower{uneven}. How much is unknown, since steps "
        "after the capture were not counted: times and savings here are of captured steps. Mark steps with "
        "`tpuprof.step(i)` or `jax.profiler.StepTraceAnnotation`, and they are counted"
    ]


def _in_no_finding(host: HostRun, compiles: Sequence[CompileRow]) -> list[str]:
    """What to say of compiles after the capture that no rule on compiles has a finding of."""
    if host.after_steps is None or not host.after_steps.lines:
        return []
    from tpuprof.model.compile.no_finding import compiled_without_finding

    lines = {row.line for row in compiles if row.host == host.name and row.step is not None}
    said = compiled_without_finding(host.after_steps, len(host.steps), lines)
    return [said] if said else []
