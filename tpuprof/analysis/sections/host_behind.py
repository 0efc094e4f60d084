"""What the verdict adds on host work that is mostly behind the device's, where another cause of the host is named."""

from __future__ import annotations

from dataclasses import replace

from tpuprof.analysis.sections.host_words import host_beside
from tpuprof.model.step_times import Bound, StepTimes
from tpuprof.model.verdict import near
from tpuprof.model.verdict_words import NAMED_FROM_SHARE
from tpuprof.parts import HOST_PREFIX
from tpuprof.report.host_lines import hidden_of, in_all
from tpuprof.report.sections import HostStackRow
from tpuprof.rules.thresholds import SAMPLED_FROM_MS
from tpuprof.units import format_ms

# What the host does for a step after its other work: the device idles for what comes last, whatever it was late for.
_COMES_LAST = ("tracing", "dispatch")
_SAID = (
    " The host's other work takes {total} of each step{place}. Of that, {hidden} is hidden behind device work; it "
    "delays the next graph all the same."
)


def said_of_work_behind(bound: Bound, load: StepTimes, stacks: list[HostStackRow], steps: int) -> str:
    """How long the host's other work is with what the device hides of it, where that is as long as the named cause.

    The host works without a pause, so that less of either makes the step shorter. Which of the two is exposed depends
    on their order. Empty where the host waits for the device, or where what is exposed is a cause of its own already.
    """
    exposed = sum(ms for name, ms in load.parts.items() if name.startswith(HOST_PREFIX))
    least = near(bound.ms, load.wall)
    plain = bound.word in _COMES_LAST and load.seen and load.behind is None and not bound.turns
    if not plain or exposed >= least or load.waited >= NAMED_FROM_SHARE * load.wall:
        return ""
    rows = [in_all(row) for row in stacks if row.part.startswith(HOST_PREFIX)]
    times = dict.fromkeys([row.part for row in rows], 0.0)
    for row in rows:
        times[row.part] += row.exposed_ms_per_step
    hidden = hidden_of(stacks, times, load.wall - load.busy - exposed)
    total = exposed + hidden
    if total < least or total * steps < SAMPLED_FROM_MS:
        return ""
    place = host_beside(replace(load, parts=times), rows)
    return _SAID.format(total=format_ms(total), place=place, hidden=format_ms(hidden))
