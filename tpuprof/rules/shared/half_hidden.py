"""Host work of which a part is behind the device's: it may hold the step up, though the device idles little for it."""

from __future__ import annotations

from collections.abc import Mapping

from tpuprof.records import record
from tpuprof.report.host_lines import PYTHON, Where, calls_programs, in_all, is_at, where_of
from tpuprof.report.sections import HostStackRow
from tpuprof.rules.thresholds import FAILS_FROM_SHARE, PRICED_FROM_SHARE, SAMPLED_FROM_MS
from tpuprof.signals import Signals


@record(frozen=True)
class HalfHidden:
    """A kind of host time (`part`), where it is, and how much of that the device idles for (ms per step).

    `where.ms` is all its time at that place. `share` is that of all such work in the step, as far as the device idles
    for anything; `left` how much of the kind is elsewhere (ratio). `times` (by part) and `stacks` have all such work as
    if the device idled for it.
    """

    share: float
    part: str
    where: Where
    exposed: float
    left: float
    times: dict[str, float]
    stacks: list[HostStackRow]


def half_hidden(signals: Signals, sampled: Mapping[str, float], hidden: float) -> HalfHidden | None:
    """Host work that is worth a finding with what is behind the device's; None without any, or without a line.

    `sampled` is the time per step in which the device idles for it, by part, `hidden` the time behind the device's
    work, as far as it may hold the step up (ms). Whether it does, a replay without it tells. The device has to idle for
    as much of it as a finding has to save: of what it idles less for, a trace shows no loss.
    """
    exposed = sum(sampled.values())
    total = exposed + hidden
    enough = total / signals.step_ms >= FAILS_FROM_SHARE and exposed / signals.step_ms >= PRICED_FROM_SHARE
    if not enough or total * len(signals.steps) < SAMPLED_FROM_MS:
        return None
    stacks = [in_all(row) if row.part in sampled else row for row in signals.host_stacks]
    times = dict.fromkeys(sampled, 0.0)
    for row in stacks:
        if row.part in sampled:
            times[row.part] += row.exposed_ms_per_step
    part = max(times, key=lambda each: times[each])
    where = where_of(stacks, part)
    if where is None or not where.source:
        return None
    if part == PYTHON and calls_programs(signals.host_stacks, where):
        # A call of a jitted function also runs Python of the framework: no other thread can do that.
        return None
    here = [row for row in signals.host_stacks if row.part == part and is_at(row, where)]
    return HalfHidden(
        total / signals.step_ms,
        part,
        where,
        exposed=sum(row.exposed_ms_per_step for row in here),
        left=1 - min(where.ms / times[part], 1.0),
        times=times,
        stacks=stacks,
    )
