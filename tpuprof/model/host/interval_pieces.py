"""What one interval between two samples went to: at most two pieces, by what changed since the sample before."""

from __future__ import annotations

from dataclasses import replace

from tpuprof.model.host.op_cost import BLOCKED_FROM_SHARE, OpCost, Sample
from tpuprof.model.host.sample_events import BLOCKING, TRACING_FROM_SHARE
from tpuprof.model.host.stacks import COMPILING, FRAMEWORK, IO, LOCK, PLAIN, SLEEP
from tpuprof.units import PS_PER_MS

TRACING, GIL = "tracing", "gil"
# Further kinds of host time, in the order of `host:` parts.
KINDS = (TRACING, "sleep", "io", "lock", GIL, "python", "wait", COMPILING)
# TRACING_FROM_SHARE of an interval that ends in code which is no framework's: that code may be what took the rest.
TRACING_BESIDE_CODE_FROM_SHARE = 0.8
# Share of an interval between two calls that sleep or wait that the thread must have been on a CPU for other code to
# lie between them (share): below it, it waited for a CPU as it woke up, which takes long on a busy machine.
RAN_FROM_SHARE = 0.15
# An interval from which samples are missing (ms), at one per 10 ms: Python's lock was kept, or the machine was busy.
# Nobody looked where the thread was in between, so frames at its end do not stand for all of it.
MISSED_FROM_MS = 15.0
# The family of a line of the user's own that calls ops.
OPS = "ops"
# Kind, stack, length (ps).
Piece = tuple[str, int, int]


def split(before: Sample, each: Sample, cost: OpCost, *, silent: bool) -> list[tuple[str, int, int]]:
    """The pieces of an interval in order: kind, stack, length (ps)."""
    if each.family == COMPILING:
        # It calls ops and Python of all sorts, and waits for the compiler.
        return [(COMPILING, each.stack, each.gap)]
    blocked = each.blocked + _woke_late(before, each)
    blocked = blocked if blocked >= BLOCKED_FROM_SHARE * each.gap else 0
    kept_out = each.kept_out if before.family not in BLOCKING else 0
    running = each.gap - blocked
    ran = _ran(before, each, running, cost, silent=silent)
    if not blocked and not kept_out:
        return ran
    of = _waits_in(before, each)
    if of is not None and of.family in BLOCKING:
        return _in_order(of is not each, (of.family, of.stack, blocked), ran)
    of = of or each
    if each.others >= TRACING_FROM_SHARE * blocked:
        held = max(blocked + _held_while_ready(each), kept_out) if blocked else kept_out
        ran = _ran(before, each, each.gap - held, cost, silent=silent)
        return _in_order(of is not each, (GIL, of.stack, held), ran)
    if each.family in BLOCKING and each.stack == before.stack >= 0:
        # It slept in between, and both looks found it in a call that sleeps, awake: many short sleeps of one line.
        kind, stack = each.family, each.stack
    else:
        # It slept at neither look: it waited at a line between them.
        between = each.asleep is False and before.asleep is False
        if each.ops or (of.family == FRAMEWORK and not silent):
            # The training thread waits while autograd's thread traces.
            kind, stack = TRACING, -1 if between else of.stack
        else:
            # What a call of the framework waits for is no wait of the line's own.
            kind, stack = "wait", -1 if between or of.in_call else of.stack
        if between and ran and ran[-1][1] == each.stack:
            return [*ran[:-1], (kind, stack, blocked), ran[-1]]
    return _in_order(of is not each, (kind, stack, blocked), ran)


def _in_order(waits_first: bool, wait: Piece, ran: list[Piece]) -> list[Piece]:
    """The pieces of an interval: it waited first where it did so in the call that it was in at the begin."""
    return [wait, *ran] if waits_first else [*ran, wait]


def _waits_in(before: Sample, each: Sample) -> Sample | None:
    """The sample in whose call the thread was blocked, None where that is unknown.

    It is one in which it slept; where nobody looked, one in a call that may block.
    """
    slept = [of for of in (each, before) if of.asleep]
    if slept:
        # A call of the framework mostly has an event of its own: the wait outside it is the other call's.
        known = [of for of in slept if of.family in BLOCKING]
        return next(iter(known or [of for of in slept if not of.in_call] or slept))
    return next((of for of in (each, before) if of.asleep is None and of.family in BLOCKING), None)


def _woke_late(before: Sample, each: Sample) -> int:
    """Of a wait for a CPU, what belongs to a call that sleeps or waits: whoever wakes up needs a CPU (ps)."""
    in_call = each.family == before.family and each.family in (SLEEP, LOCK)
    return each.waited if in_call and each.cpu < RAN_FROM_SHARE * each.gap else 0


def _held_while_ready(each: Sample) -> int:
    """Of a wait for a CPU, what belongs to the thread that holds Python's lock (ps).

    Who waits for the lock wakes up in between, and then needs a CPU too. On a busy machine both threads wait for one:
    the time is split as their CPU times are.
    """
    return round(each.waited * each.others / max(each.others + each.cpu, 1))


def _ran(
    before: Sample, each: Sample, running: int, cost: OpCost, *, silent: bool
) -> list[tuple[str, int, int]]:
    """What the thread did while it was on a CPU or ready for one."""
    if each.family == before.family == IO:
        return [(IO, each.stack, running)]
    of = _ran_at(before, each)
    framework = of.family == FRAMEWORK and not silent
    tracing = cost.of(each, running)
    # A sample in a function that traces nothing stands for its interval: its ops were traced where other samples are.
    alone = TRACING if of.family == OPS and of.ops else "python" if of.quiet else ""
    if alone:
        return [(alone, of.stack, running)]
    most = TRACING_BESIDE_CODE_FROM_SHARE if of.family == PLAIN or of.works else TRACING_FROM_SHARE
    if tracing >= most * running or (framework and not _missed(before, each, tracing, running)):
        return [(TRACING, of.stack, running)]
    if framework:
        # The rest is unknown.
        return [(TRACING, of.stack, tracing)]
    if cost.leaves_unknown(each):
        # In a whole step the ops were traced where nobody looked.
        return [(TRACING, -1 if each.round else of.stack, tracing)]
    other = IO if of.family == IO else "python"
    traced_at = -1 if cost.as_events else _traced_at(before, each, of)
    return [(TRACING, traced_at, tracing), (other, of.stack, running - tracing)]


def _traced_at(before: Sample, each: Sample, of: Sample) -> int:
    """The stack (its row) that traced the ops of an interval in which other code ran at `of`; -1 where nobody looked.

    Where other code runs now, they were traced before it; where it ran at the begin, after it.
    """
    if before.family == FRAMEWORK:
        return before.stack
    return -1 if each.round or of is before else of.stack


def _ran_at(before: Sample, each: Sample) -> Sample:
    """Where the thread was while it ran, outside the framework's calls."""
    if each.family in BLOCKING and not each.works:
        # A call that blocks has hardly begun: what ran before it belongs to where the thread was then. One that only
        # copies (`buffer.write(line)`) is seen as often as it runs, like other code.
        return before
    if each.asleep and before.asleep is False:
        # The same of any call in which it sleeps.
        return before
    if each.in_call and before.in_call:
        # Between two calls it was at neither of them.
        return replace(each, stack=-1)
    return before if each.in_call else each


def _missed(before: Sample, each: Sample, tracing: float, running: int) -> bool:
    """Whether the thread went from one place to another for longer than its ops explain, unseen."""
    elsewhere = before.stack != each.stack and each.gap >= MISSED_FROM_MS * PS_PER_MS
    return elsewhere and tracing < TRACING_FROM_SHARE * running
