"""What tracing an op takes, by samples of the training thread that count ops."""

from __future__ import annotations

import numpy as np

from tpuprof.model.host.stacks import COMPILING, FRAMEWORK, PLAIN
from tpuprof.records import record
from tpuprof.units import PS_PER_MS

# What tracing one op takes on the training thread where a capture does not show it (ms): the middle of what forward
# passes of small and large models took (measured, PJRT_DEVICE=CPU: 0.02 to 0.09).
OP_MS = 0.05
# What an op takes at most where no interval lies inside a framework, but some hold other code alone (ms): twice the
# above, since such code between the ops counts with them there. Share of the time in such intervals that shows it.
OP_MS_AT_MOST = 0.1
OTHER_CODE_FROM_SHARE = 0.1
# CPU time per op (ms) from which an interval holds other code, though nothing else shows what an op takes: on a host
# half again as slow as any that was measured, ops still leave a third of it. From `OP_MS_AT_MOST` up to it the rest
# may be either, and counts as neither.
OTHER_CODE_FROM_OP_MS = 1.5 * OP_MS_AT_MOST
# Ops traced in an interval from which it shows by itself what an op takes (ops).
OPS_TO_MEASURE = 10
# Intervals inside a framework from which their median is taken (intervals), and else the share of all intervals that
# are quick: in a loop of nothing but ops all take about the same; of others, the quick ones hold least other work.
INTERVALS_TO_MEASURE = 3
QUICK_INTERVALS = 0.25
# Share of the time of samples that must lie in a framework's frames for an interval that holds a graph cut to be taken
# for tracing alone (share): below it, most of the step is likely to be elsewhere. A judgement.
ROUND_BELOW_SHARE = 0.5
# Share of the sampled time in intervals that go round a whole step and end where they began, in code that is no
# framework's, from which none of them shows what an op takes (share): each holds that code's time as well, as where it
# keeps Python's lock for so long that the sampler finds the thread there once per step. A judgement.
ROUNDS_FROM_SHARE = 0.5
# Share of an interval that the thread must be blocked for the block to be a piece of its own: below it, it is the
# sampler's own hold on Python's lock.
BLOCKED_FROM_SHARE = 0.15


@record
class Sample:
    """One sample: its moment, the length of its interval, and of that on a CPU, waiting for one, blocked (ps)."""

    at: int
    gap: int
    cpu: int
    waited: int
    others: int
    ops: int
    stack: int
    family: str
    holder: int = -1
    blocked: int = 0
    # In a line of the program that calls the framework, at a moment that the call's own event explains, or right after.
    in_call: bool = False
    # A graph was cut in the interval: a line at both of its ends may lie in two steps.
    cut: bool = False
    # Graph cuts before it.
    cuts: int = 0
    # A value was read in the interval: a line at both of its ends was left in between.
    read: bool = False
    # From one line of other code than a framework's to the same line, with a graph cut between: round a whole step.
    round: bool = False
    # It came where the thread was, not where it let go of Python's lock.
    prompt: bool = False
    # Whether the thread slept at that moment; None where that is unknown.
    asleep: bool | None = None
    # In a function of the program that traces nothing, at that very moment.
    quiet: bool = False
    # At a line of which all samples come at the same op of a step: it traces nothing.
    still: bool = False
    # The call that it came in, one of those that may block, did not: the thread was on a CPU before and after.
    works: bool = False
    # How long after the look at the thread it was written (ps): the thread may have gone on.
    late: int = 0
    # CPU time of all threads of the process in the interval (ps), 0 where that is unknown.
    process: int = 0
    # Other threads had Python's lock for so long, where they are known to work with it (ps).
    kept_out: int = 0

    @property
    def was_blocked(self) -> bool:
        """Whether the thread was off the CPU in a part of the interval that is worth a piece of its own."""
        return self.blocked >= BLOCKED_FROM_SHARE * self.gap


@record(frozen=True)
class OpCost:
    """What tracing an op takes (ps). `assumed` where no interval of the capture shows it: it is then CPU time.

    `as_events` where each op is an event of its own: those of the training thread lie in none of its other time.
    """

    ps: float
    assumed: bool = False
    as_events: bool = False

    def of(self, each: Sample, running: int) -> int:
        """How much of what a thread ran in an interval its ops explain (ps)."""
        slowed = running / each.cpu if self.assumed and each.cpu else 1.0
        return round(min(each.ops * self.ps * slowed, running))

    def leaves_unknown(self, each: Sample) -> bool:
        """Whether the rest of an interval may be slow ops as well as other code."""
        return self.assumed and 0 < each.cpu < each.ops * OTHER_CODE_FROM_OP_MS * PS_PER_MS


def op_cost(samples: list[Sample]) -> OpCost:
    """What tracing an op takes, by the intervals that traced many.

    An interval that lies in a framework's frames is nothing but tracing. One that ends in other code holds that code's
    time too, up to a call that keeps Python's lock for long: of those, the quick ones tell. Intervals that last a whole
    step may all hold other code: where even the quick ones are on a CPU for longer than ops are, none tells. Nor does
    one tell that begins and ends in a framework's frames with a graph cut between, where most samples are elsewhere:
    the thread was round a whole step in it. Where most intervals go round from one line of other code to the same,
    only the others tell.
    """
    all_round = sum(each.gap for each in samples if each.round)
    rounds = all_round >= ROUNDS_FROM_SHARE * sum(each.gap for each in samples) > 0
    of_framework = sum(each.gap for each in samples if each.family == FRAMEWORK)
    goes_round = of_framework < ROUND_BELOW_SHARE * sum(each.gap for each in samples)
    cost = [
        (
            (each.gap - each.blocked) / each.ops,
            each.cpu / each.ops,
            before is not None
            and before.family == each.family == FRAMEWORK
            and not (each.cut and goes_round),
            each.ops,
        )
        for before, each in zip([None, *samples], samples, strict=False)
        # Where the training thread waits, autograd's thread traces meanwhile.
        if each.ops >= OPS_TO_MEASURE and not each.was_blocked and each.family != COMPILING
        if not (rounds and each.round)
    ]
    inside = [ps for ps, _, in_framework, _ in cost if in_framework]
    if len(inside) >= INTERVALS_TO_MEASURE:
        return OpCost(float(np.median(inside)))
    if not cost:
        return OpCost(OP_MS * PS_PER_MS, assumed=rounds)
    quick = float(np.quantile([ps for ps, *_ in cost], QUICK_INTERVALS))
    on_cpu = float(np.quantile([ps for _, ps, *_ in cost], QUICK_INTERVALS))
    other = sum(each.gap for each in samples if each.family == PLAIN and each.ops < OPS_TO_MEASURE)
    mixed = other >= OTHER_CODE_FROM_SHARE * sum(each.gap for each in samples)
    at_most = OP_MS_AT_MOST * PS_PER_MS
    if mixed:
        return OpCost(min(_quick_by_ops(cost), at_most))
    return OpCost(quick) if on_cpu <= at_most or inside else OpCost(OP_MS * PS_PER_MS, assumed=True)


def _quick_by_ops(cost: list[tuple[float, float, bool, int]]) -> float:
    """What an op takes in the quick intervals, each of which counts by its ops (ps).

    Other code lies in most intervals where an environment in NumPy is called between forward passes of 26 ops. A
    backward pass of 300 ops is one interval, and tells more.
    """
    ps, ops = np.array(sorted((each, ops) for each, _, _, ops in cost), np.float64).T
    return float(ps[np.searchsorted(np.cumsum(ops), QUICK_INTERVALS * ops.sum())])
