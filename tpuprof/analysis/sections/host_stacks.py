"""Sampled Python stacks of the training threads as rows: which part of the step each went to, exposed and hidden."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tpuprof.model.attribution import compiling
from tpuprof.model.host.interval_pieces import KINDS, TRACING
from tpuprof.model.host.samples import HostSamples
from tpuprof.model.host.stacks import COMPILING, Stack, runs_no_framework
from tpuprof.model.host.vocabulary import Activity
from tpuprof.model.host_run import HostRun
from tpuprof.model.intervals import (
    EMPTY,
    Bool,
    Int64,
    Spans,
    contains,
    covered,
    intersect,
    merge,
    subtract,
    union,
)
from tpuprof.parts import COMPILE, DISPATCH, HOST_OTHER, HOST_PREFIX, USER_PREFIX, of_activity
from tpuprof.parts import TRACING as TRACING_PART
from tpuprof.records import record
from tpuprof.report.sections import HostStackRow
from tpuprof.units import PS_PER_MS

# Rows kept, those with most time (rows); stacks below this share of the step are left out as well.
MAX_ROWS = 400
LEAST_SHARE = 0.0005
# Kinds of samples that are parts by themselves, and the activity that each counts for.
_PARTS = {TRACING: TRACING_PART, COMPILING: COMPILE}
_ACTIVITIES = {TRACING_PART: Activity.TRACING, COMPILE: Activity.COMPILE}
_Sums = dict[tuple[Stack, str], tuple[int, int, int]]


@record(frozen=True)
class StackSums:
    """The sampled stacks of one host in its steps, which take `wall_ps` together.

    `rows` has by stack and part of the breakdown what of its time is exposed and hidden (ps), and how many intervals
    between samples that is from. `holder` is the line that held Python's lock most of the time, empty where unknown.
    """

    steps: int
    wall_ps: int
    rows: list[tuple[Stack, str, int, int, int]]
    holder: str = ""


def stack_sums(host: HostRun) -> StackSums | None:
    """The stacks of one host, None where its capture sampled none."""
    samples = host.activity.samples
    if samples is None:
        return None
    sums: _Sums = {}
    if len(host.steps):
        _add(sums, host, samples)
    rows = [(*key, *times) for key, times in sums.items()]
    return StackSums(len(host.steps), int(host.steps.wall_ps.sum()), rows, _holder(samples))


def host_stack_rows(hosts: list[HostRun]) -> list[HostStackRow]:
    """Stacks per step, most time first; empty where the capture sampled none."""
    return merged_stack_rows(map(stack_sums, hosts))


def merged_stack_rows(hosts: Iterable[StackSums | None]) -> list[HostStackRow]:
    """The stacks of all hosts, which come by name, added up."""
    sums: _Sums = {}
    steps = wall = 0
    holder = ""
    for host in hosts:
        if host is None:
            continue
        steps, wall, holder = steps + host.steps, wall + host.wall_ps, holder or host.holder
        for stack, part, exposed, hidden, count in host.rows:
            before = sums.get((stack, part), (0, 0, 0))
            sums[stack, part] = before[0] + exposed, before[1] + hidden, before[2] + count
    rows = [
        HostStackRow(
            part=name,
            frames=list(stack.frames),
            call=stack.call,
            source=stack.source,
            user_call=stack.user_call,
            exposed_ms_per_step=exposed / steps / PS_PER_MS,
            hidden_ms_per_step=hidden / steps / PS_PER_MS,
            samples=count,
            holder=holder if name == HOST_PREFIX + "gil" else "",
        )
        for (stack, name), (exposed, hidden, count) in sums.items()
        if exposed + hidden >= LEAST_SHARE * wall
    ]
    return sorted(rows, key=lambda row: -(row.exposed_ms_per_step + row.hidden_ms_per_step))[:MAX_ROWS]


def _holder(samples: HostSamples) -> str:
    """The line that held Python's lock on this host, empty where that is unknown."""
    found = samples.holder
    if found is None:
        return ""
    place = found.source or (found.frames[-1] if found.frames else "")
    return f"{place} ({found.shown})" if found.shown else place


def _add(sums: _Sums, host: HostRun, samples: HostSamples) -> None:
    busy = merge(*(device.busy for device in host.devices)) if host.devices else EMPTY
    steps = union(host.steps.start, host.steps.end)
    start, end = samples.start, samples.end
    total = covered(steps, start, end)
    open_total = total - covered(intersect(steps, busy), start, end)
    others = _others(host, samples)
    # As in the breakdown: a wait beside another thread's compile is a wait for that.
    compiles = compiling(host.activity)
    made = covered(intersect(compiles, steps), start, end)
    open_made = covered(subtract(intersect(compiles, steps), busy), start, end)
    annotated = _annotated(host, subtract(steps, compiles), busy, samples)
    for name, (inside, open_inside) in annotated.items():
        seen = _seen_there(host.activity.user[name.removeprefix(USER_PREFIX)], samples)
        for at in np.flatnonzero((inside > 0) & (seen >= 0)).tolist():
            key = (samples.stacks[int(seen[at])], name)
            _count(sums, key, int(inside[at]), int(open_inside[at]), seen=samples.was_looked_at(at))
    for number, kind in enumerate(KINDS):
        chosen = np.flatnonzero((samples.kind == number) & (samples.stack >= 0))
        if not len(chosen):
            continue
        name = _PARTS.get(kind, HOST_PREFIX + kind)
        spans = EMPTY if name == COMPILE else subtract(_of_part(host, name), compiles)
        own = covered(intersect(spans, steps), start[chosen], end[chosen])
        open_own = covered(subtract(intersect(spans, steps), busy), start[chosen], end[chosen])
        for row, at in enumerate(chosen.tolist()):
            stack = samples.stacks[int(samples.stack[at])]
            looked = samples.was_looked_at(at)
            _count(sums, (stack, name), int(own[row]), int(open_own[row]), seen=looked)
            _count(sums, (stack, COMPILE), int(made[at]), int(open_made[at]), seen=looked)
            rest = int(total[at] - own[row] - made[at])
            open_rest = int(open_total[at] - open_own[row] - open_made[at])
            for inside, open_inside in annotated.values():
                rest, open_rest = rest - int(inside[at]), open_rest - int(open_inside[at])
            if others[at]:
                _count(sums, (stack, others[at]), rest, open_rest, seen=looked)


def _others(host: HostRun, samples: HostSamples) -> list[str]:
    """The part that each piece counts for beside its own kind; empty where its line does not tell.

    Where each op is an event, a line that runs nothing of the framework and was never seen in such an event hands no op
    over: what else is dispatch beside it, as autograd's thread calls ops, belongs to a line that nobody saw.
    """
    looked = _looked_at(samples)
    found, calling = _parts_at(host, looked), host.activity.calling
    if calling is None:
        return found
    lines = [each.line for each in samples.stacks]
    alone = [runs_no_framework(each) for each in samples.stacks]
    inside = contains(calling, looked) & (samples.stack >= 0)
    calls = {lines[row] for row in set(samples.stack[inside].tolist())}
    calls |= {line for line, own in zip(lines, alone, strict=True) if not own}
    silent = [line not in calls for line in lines] + [False]
    return [
        "" if name == DISPATCH and silent[row] else name
        for name, row in zip(found, samples.stack.tolist(), strict=True)
    ]


def _looked_at(samples: HostSamples) -> Int64:
    """When the thread was where each interval's stack shows it.

    That is at the look which shows the stack: the first one from the interval's begin on, else the last one before. A
    look is written later, and an interval is cut in pieces: at its end the thread may be in a call of another line.
    Pieces that no look shows have their end.
    """
    start, end = samples.start, samples.end
    if not len(samples.taken):
        return end - 1
    order = np.argsort(samples.taken, kind="stable")
    looks, seen = samples.taken[order], samples.seen[order]
    found = np.where(_ends_elsewhere(samples, looks, seen), start, end - 1)
    after = np.searchsorted(looks, start, "left")
    own = np.ones(len(start), np.bool_) if samples.looked is None else samples.looked
    for row in (after - 1, after + 1, after):
        near = np.clip(row, 0, len(looks) - 1)
        # What ended as the look came is what the look shows.
        found = np.where(own & (seen[near] == samples.stack), looks[near] - 1, found)
    return found


def _ends_elsewhere(samples: HostSamples, looks: Int64, seen: Int64) -> Bool:
    """Whether the last look in each interval shows another stack than the interval's."""
    row = np.maximum(np.searchsorted(looks, samples.end, "right") - 1, 0)
    inside = (looks[row] >= samples.start) & (looks[row] <= samples.end)
    found: Bool = inside & (seen[row] != samples.stack)
    return found


def _annotated(
    host: HostRun, steps: Spans, busy: Spans, samples: HostSamples
) -> dict[str, tuple[Int64, Int64]]:
    """Of each interval, the time in annotations that trace nothing, and what of it is exposed; by part (ps)."""
    found, start, end = {}, samples.start, samples.end
    for name, spans in host.activity.user.items():
        inside = intersect(spans, steps)
        found[USER_PREFIX + name] = (covered(inside, start, end), covered(subtract(inside, busy), start, end))
    return found


def _seen_there(spans: Spans, samples: HostSamples) -> Int64:
    """The stack (its row) that each interval's time in annotations of one name was at, -1 where that is unknown.

    An interval that ends after the annotation shows the line after it: the nearest look into one of that name counts.
    """
    # What ended as the look came is what the look shows.
    looks = np.flatnonzero(contains(spans, samples.taken - 1) & (samples.seen >= 0))
    if not len(looks):
        return samples.stack
    looks = looks[np.argsort(samples.taken[looks], kind="stable")]
    taken = samples.taken[looks]
    after = np.minimum(np.searchsorted(taken, samples.end), len(looks) - 1)
    before = np.maximum(after - 1, 0)
    nearer = samples.end - taken[before] <= np.abs(taken[after] - samples.end)
    return samples.seen[looks[np.where(nearer, before, after)]]


def _of_part(host: HostRun, name: str) -> Spans:
    activity = _ACTIVITIES.get(name)
    return host.activity.spans(activity) if activity is not None else host.activity.named.get(name, EMPTY)


def _parts_at(host: HostRun, times: Int64) -> list[str]:
    """The part of the breakdown that the training thread's activity counts for at each time."""
    found = np.full(len(times), -1, np.int64)
    names = [HOST_OTHER]
    for activity, name in of_activity().items():
        names.append(name)
        found[contains(host.activity.spans(Activity[activity.upper()]), times)] = len(names) - 1
    return [names[max(row, 0)] for row in found.tolist()]


def _count(sums: _Sums, key: tuple[Stack, str], total: int, exposed: int, *, seen: bool) -> None:
    """Add a piece of time; it counts as a sample where the thread was looked at in it."""
    if total > 0:
        before = sums.get(key, (0, 0, 0))
        sums[key] = (before[0] + max(exposed, 0), before[1] + max(total - exposed, 0), before[2] + seen)
