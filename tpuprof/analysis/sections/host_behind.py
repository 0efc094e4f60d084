"""What the verdict adds on host work that is mostly behind the device's, where another cause of the host is named."""

from __future__ import annotations

from tpuprof.model.step_times import Bound, StepTimes
from tpuprof.model.verdict import near
from tpuprof.model.verdict_words import NAMED_FROM_SHARE
from tpuprof.parts import HOST_PREFIX
from tpuprof.report.host_lines import LINE_FROM_SHARE, in_all, where_of
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
    hidden = min(
        sum(row.hidden_ms_per_step for row in stacks if row.part.startswith(HOST_PREFIX)),
        max(load.wall - load.busy - exposed, 0.0),
    )
    total = exposed + hidden
    if total < least or total * steps < SAMPLED_FROM_MS:
        return ""
    where = where_of(rows, max(rows, key=lambda row: row.exposed_ms_per_step).part)
    told = where is not None and where.ms >= LINE_FROM_SHARE * sum(row.exposed_ms_per_step for row in rows)
    place = f", most of it at {where.text}" if where is not None and told else ""
    return _SAID.format(total=format_ms(total), place=place, hidden=format_ms(hidden))
