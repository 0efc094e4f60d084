"""Samples of the training thread's stack, and what the time between them went to.

A sample says where the thread was when it let go of Python's lock, and what changed since the sample before: ops
traced, CPU time, waits for a CPU, CPU time of other Python threads. Each interval between two samples is split in at
most two pieces by those changes; each piece goes to the stack at its end or at its begin.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field, replace
from itertools import pairwise

import numpy as np

from tpuprof.model.host.lock_shared import mark_kept_out
from tpuprof.model.host.op_cost import (
    BLOCKED_FROM_SHARE,
    OPS_TO_MEASURE,
    OpCost,
    Sample,
    op_cost,
)
from tpuprof.model.host.sample_events import BLOCKING, TRACING_FROM_SHARE, cuts_of, samples_of, times_of
from tpuprof.model.host.stacks import COMPILING, FRAMEWORK, IO, LOCK, PLAIN, SLEEP, Stack, called, family
from tpuprof.model.host.still_lines import line_of, still_lines
from tpuprof.model.host.unseen_gaps import told_by_others
from tpuprof.model.intervals import EMPTY, Bool, Int64, Spans, intersect, merge, subtract, union
from tpuprof.model.timeline import Host, Track
from tpuprof.own_events import HOLDER, HOST_READ, NAMELESS, SAMPLE, SET_LAST, UPLOAD
from tpuprof.records import record
from tpuprof.units import PS_PER_MS, PS_PER_US

TRACING, GIL = "tracing", "gil"
# Further kinds of host time, in the order of `host:` parts.
KINDS = (TRACING, "sleep", "io", "lock", GIL, "python", "wait", COMPILING)
# TRACING_FROM_SHARE of an interval that ends in code which is no framework's: that code may be what took the rest.
TRACING_BESIDE_CODE_FROM_SHARE = 0.8
# Share of an interval between two calls that sleep or wait that the thread must have been on a CPU for other code to
# lie between them (share): below it, it waited for a CPU as it woke up, which takes long on a busy machine.
RAN_FROM_SHARE = 0.15
# Framework frames without one op are tracing for so long (ms): an optimizer's or a module's own Python. Beyond it the
# framework works on host tensors.
FRAMEWORK_WITHOUT_OPS_MS = 25.0
# Intervals that begin and end in one and the same call of a framework, and trace no op, from which the call works on
# host tensors (intervals): tracing moves on within 0.1 ms per op, and an optimizer's own Python from line to line.
SAME_CALL_WITHOUT_OPS = 3
# Intervals without an op that end in a function from which it traces nothing (intervals), and the least of one that the
# thread was not waiting for a CPU (ms): whoever does not run traces nothing, wherever it is.
QUIET_INTERVALS, QUIET_FROM_MS = 2, 1.0
# An interval from which samples are missing (ms), at one per 10 ms: Python's lock was kept, or the machine was busy.
# Nobody looked where the thread was in between, so frames at its end do not stand for all of it.
MISSED_FROM_MS = 15.0
# Time since the framework's last event in which what follows a call has hardly begun (ps): Python lets go of its lock
# as a call ends, and the sampler then needs a CPU (nine in ten times 0.1 to 0.3 ms, on a busy machine of two cores).
HARDLY_BEGUN_PS = 500 * PS_PER_US
# Calls that wait for a value of the device, and leave no event on JAX's CPU client (`np.asarray(loss)`).
READ_BY = ("asarray", "array")
# The family of a line of the user's own that calls ops.
OPS = "ops"
# Kind, stack, length (ps).
_Piece = tuple[str, int, int]
# A sample's event is written this long after its clocks were read, at most: intervals so near are end to end (ps).
_JOINS_WITHIN_PS = PS_PER_MS


@record(frozen=True)
class HostSamples:
    """The training thread's time as pieces, in order: ps, `kind` a row of `KINDS`, `stack` a row of `stacks` or -1.

    `holder` is the stack that another thread held Python's lock in for most of the time, None where that is unknown.
    """

    start: Int64
    end: Int64
    kind: Int64
    stack: Int64
    stacks: list[Stack] = field(default_factory=list)
    holder: Stack | None = None
    # When the thread was looked at (ps), which is before the sample was written, and the row of the stack seen then, -1
    # where that is unknown.
    taken: Int64 = field(default_factory=lambda: EMPTY.start)
    seen: Int64 = field(default_factory=lambda: EMPTY.start)
    # Which of the pieces the samples there show; the others are what looks in other gaps show. None: all.
    looked: Bool | None = None

    def was_looked_at(self, piece: int) -> bool:
        """Whether a sample in the piece itself shows it."""
        return self.looked is None or bool(self.looked[piece])

    def spans(self, kind: str) -> Spans:
        """When the thread was at that kind of work."""
        chosen = self.kind == KINDS.index(kind)
        return union(self.start[chosen], self.end[chosen])


def _inside(spans: Spans, at: int) -> bool:
    row = int(np.searchsorted(spans.start, at, "right")) - 1
    return row >= 0 and at < int(spans.end[row])


def _has_hardly_begun(unexplained: Spans, at: int, stack: Stack) -> bool:
    """Whether a call has just ended, so that what ran before it was no work of the line that is seen now.

    The line stores what the call gave (`loss`), or waits for it (`np.asarray(loss)`).
    """
    row = int(np.searchsorted(unexplained.start, at, "right")) - 1
    after_a_call = row > 0 and at - int(unexplained.start[row]) <= HARDLY_BEGUN_PS
    name = stack.user_call.removesuffix(SET_LAST)
    return after_a_call and (name.isidentifier() or called(stack.user_call) in READ_BY)


def read_samples(
    host: Host, unexplained: Spans | None = None, driver: Track | None = None
) -> HostSamples | None:
    """The samples of a host's trace as pieces of time; None where it has none.

    Of a framework whose calls are events (JAX), `unexplained` is the thread's time outside them; its samples count no
    ops. None of one whose samples do. `driver` is the training thread.
    """
    for track in host.threads:
        rows = track.named(SAMPLE)
        if len(rows):
            samples, stacks = samples_of(track, rows, track.named(HOLDER))
            reads = times_of(driver, HOST_READ)
            cuts, bounds = cuts_of(host, reads)
            for each in samples:
                first, last = np.searchsorted(bounds, [each.at - each.gap, each.at])
                each.cut, each.cuts = bool(last > first), int(np.searchsorted(cuts, each.at - each.late))
                first, last = np.searchsorted(reads.start, [each.at - each.gap, each.at])
                each.read = bool(last > first)
            if unexplained is not None:
                for each in samples:
                    each.in_call = each.family == PLAIN and (
                        not _inside(unexplained, each.at)
                        or (each.stack >= 0 and _has_hardly_begun(unexplained, each.at, stacks[each.stack]))
                    )
            else:
                calls = times_of(driver, HOST_READ, UPLOAD)
                for each in samples:
                    each.in_call = each.family == PLAIN and _inside(calls, each.at - each.late)
            found = _pieces(samples, stacks, counts_ops=unexplained is None)
            if unexplained is None or driver is None:
                return found
            return _with_unseen_gaps(found, samples, driver, unexplained)
    return None


def _with_unseen_gaps(
    found: HostSamples, samples: list[Sample], driver: Track, unexplained: Spans
) -> HostSamples:
    """The same, with gaps between calls that nobody looked into as the other gaps between these calls are."""
    columns = (found.start, found.end, found.kind, found.stack)
    pieces = [
        (at, until, KINDS[kind], stack)
        for at, until, kind, stack in zip(*(each.tolist() for each in columns), strict=True)
    ]
    kept, told = told_by_others(pieces, samples, driver, unexplained, frozenset({GIL, COMPILING}))
    rows = sorted([(*each, True) for each in kept] + [(*each, False) for each in told])
    made = np.array(
        [(at, until, KINDS.index(kind), stack, own) for at, until, kind, stack, own in rows], np.int64
    )
    start, end, kind, stack, own = made.reshape(-1, 5).T
    return replace(found, start=start, end=end, kind=kind, stack=stack, looked=own.astype(np.bool_))


def _most_held(held: dict[int, int], stacks: list[Stack]) -> Stack | None:
    """The stack that held Python's lock longest, of the line that did; `held` is by row of the stacks (ps).

    What a line calls may have a stack of its own in each sample. A sample often comes when the other thread lets go of
    the lock, to write a file or to wait: what it did before is then at another line, where one was seen.
    """
    working = {row: ps for row, ps in held.items() if family(stacks[row]) not in (SLEEP, IO, LOCK)}
    held = working or held
    at_line: Counter[str] = Counter()
    for row, ps in held.items():
        at_line[stacks[row].source] += ps
    line = max(at_line, key=lambda each: at_line[each], default="")
    rows = [row for row in held if stacks[row].source == line]
    return stacks[max(rows, key=lambda row: held[row])] if rows else None


def _pieces(samples: list[Sample], stacks: list[Stack], *, counts_ops: bool) -> HostSamples:
    if counts_ops:
        _mark_still(samples, stacks)
    _mark_rounds(samples, stacks)
    mark_kept_out(samples, stacks)
    cost = op_cost(samples)
    alone = _alone(samples, stacks)
    silent = _silent_frameworks(samples) if counts_ops else set()
    _mark_lines(samples, stacks, _quiet_functions(samples, stacks) if counts_ops else set())
    rows: list[tuple[int, int, int, int]] = []
    held: dict[int, int] = {}
    for before, each in zip([None, *samples], samples, strict=False):
        at = each.at - each.gap
        if before is not None and abs(before.at - at) < _JOINS_WITHIN_PS:
            at = before.at
        pieces = _split(before or each, each, cost, silent=id(each) in silent)
        if each.round and _function(each, stacks) in alone:
            pieces = _of_round(each, pieces, alone[_function(each, stacks)])
        for kind, stack, length in pieces:
            if length > 0:
                rows.append((at, at + length, KINDS.index(kind), stack))
                at += length
                if kind == GIL and each.holder >= 0:
                    held[each.holder] = held.get(each.holder, 0) + length
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    holder = _most_held(held, stacks)
    taken = np.array([(each.at - each.late, each.stack) for each in samples], np.int64).reshape(-1, 2).T
    return HostSamples(columns[0], columns[1], columns[2], columns[3], stacks, holder, taken[0], taken[1])


def _mark_lines(samples: list[Sample], stacks: list[Stack], quiet: set[str]) -> None:
    """Mark samples at the user's own lines: those that call ops, and those in `quiet` functions, which do not."""
    lines = _tracing_lines(samples, stacks)
    for each in samples:
        silent_there = each.asleep is not None and each.family == PLAIN and _function(each, stacks) in quiet
        each.quiet = each.still or silent_there
        if each.family == PLAIN and not each.still and line_of(each, stacks) in lines:
            each.family = OPS


def _mark_still(samples: list[Sample], stacks: list[Stack]) -> None:
    """Mark samples at lines that trace nothing; a framework that works on host tensors there is other code."""
    still = still_lines(samples, stacks)
    for each in samples:
        each.still = each.family in (PLAIN, FRAMEWORK) and line_of(each, stacks) in still
        each.family = PLAIN if each.still else each.family


def _mark_rounds(samples: list[Sample], stacks: list[Stack]) -> None:
    """Mark intervals that go round a step from one line of other code to the same.

    Where the first began is unknown: it is one where it ends as the others do.
    """
    sources = set()
    for before, each in pairwise(samples):
        if each.cut and before.family == each.family == PLAIN and min(before.stack, each.stack) >= 0:
            source = stacks[each.stack].line
            each.round = bool(source) and source == stacks[before.stack].line
            sources |= {source} if each.round else set()
    for first in samples[:1]:
        first.round = first.cut and first.stack >= 0 and stacks[first.stack].line in sources


def _alone(samples: list[Sample], stacks: list[Stack]) -> dict[str, int]:
    """How long functions of other code run by themselves (ps): the median interval that ends there and holds no op."""
    found: dict[str, list[int]] = {}
    for each in samples:
        name = _function(each, stacks)
        if each.family == PLAIN and name and not each.ops and not each.was_blocked and _is_told(each):
            found.setdefault(name, []).append(each.gap - each.blocked)
    return {name: int(np.median(lengths)) for name, lengths in found.items()}


def _of_round(each: Sample, pieces: list[_Piece], alone: int) -> list[_Piece]:
    """The pieces of a whole step that ends in code which is known to run for so long by itself.

    Ops were traced before it, where nobody looked: code that keeps Python's lock is where the sampler finds the thread.
    """
    at = next((row for row, (kind, *_) in enumerate(pieces) if kind == TRACING), None)
    if at is None:
        return pieces
    waits = [piece for piece in pieces[at:] if piece[0] not in (TRACING, "python")]
    running = each.gap - sum(length for _, _, length in (*pieces[:at], *waits))
    own = min(alone, running)
    return [*pieces[:at], (TRACING, -1, running - own), ("python", each.stack, own), *waits]


def _tracing_lines(samples: list[Sample], stacks: list[Stack]) -> set[str]:
    """Lines of the user's own code that call ops: intervals that begin and end there hold many.

    A call of NumPy is no such line, though an interval that ends in it may hold the ops of the lines before. Nor does
    an interval with missed samples or a graph cut tell: the thread may have been round a whole step in it. Nor one in
    which a value was read: an environment in NumPy is called again after each read of an action. Nor one between two
    calls from different lines: a handler of a signal runs wherever the thread is.
    """
    ops: dict[str, list[int]] = {}
    for before, each in pairwise(samples):
        if each.gap >= MISSED_FROM_MS * PS_PER_MS or each.cut or each.read:
            continue
        if before.stack >= 0 and each.stack >= 0 and before.family == each.family == PLAIN:
            source = stacks[each.stack].line
            if source and source == stacks[before.stack].line and _same_call(before, each, stacks):
                ops.setdefault(source, []).append(each.ops)
    return {source for source, found in ops.items() if np.median(found) >= OPS_TO_MEASURE}


def _same_call(before: Sample, each: Sample, stacks: list[Stack]) -> bool:
    """Whether two samples at one line may be in one call of its function: the callers are the same."""
    first, second = (stacks[of.stack] for of in (before, each))
    return _callers(first) == _callers(second)


def _callers(stack: Stack) -> tuple[str, ...]:
    """The frames outside the one that is at the user's own line."""
    at = f"({stack.source})"
    row = max((row for row, frame in enumerate(stack.frames) if frame.endswith(at)), default=0)
    return stack.frames[:row]


def _quiet_functions(samples: list[Sample], stacks: list[Stack]) -> set[str]:
    """Functions of other code than a framework's that trace nothing: several intervals that end there hold no op.

    Nor does any that begins and ends there, but for one with a graph cut: the thread was round a whole step in it.
    """
    silent: Counter[str] = Counter()
    traces: set[str] = set()
    for before, each in pairwise(samples):
        name = _function(each, stacks)
        if each.family != PLAIN or not name:
            continue
        if not each.ops and not each.was_blocked and _is_told(each):
            silent[name] += 1
        if each.ops and not each.cut and before.family == PLAIN and _function(before, stacks) == name:
            traces.add(name)
    return {name for name, count in silent.items() if count >= QUIET_INTERVALS} - traces


def _is_told(each: Sample) -> bool:
    """Whether the thread ran or was blocked for long enough in an interval that its ops say what it does."""
    return each.gap - each.waited >= QUIET_FROM_MS * PS_PER_MS


def _function(each: Sample, stacks: list[Stack]) -> str:
    """The innermost function that has a name of its own, with its file; empty where no stack is known."""
    frames = reversed(stacks[each.stack].frames) if each.stack >= 0 else ()
    name = next((frame for frame in frames if not frame.startswith(NAMELESS)), "")
    return name.rpartition(":")[0]


def _silent_frameworks(samples: list[Sample]) -> set[int]:
    """Samples in a framework's frames that trace nothing for long: it works on host tensors there.

    That is so where many samples follow each other without an op, and where a call is seen again and again to last from
    one sample to the next without one: then in each of its samples without ops.
    """
    quiet = [each for each in samples if each.family == FRAMEWORK and not each.ops]
    lasts = Counter(
        each.stack
        for before, each in pairwise(samples)
        if each.family == FRAMEWORK and each.stack == before.stack >= 0 and not each.ops and _is_told(each)
    )
    found = {id(each) for each in quiet if lasts[each.stack] >= SAME_CALL_WITHOUT_OPS}
    run: list[Sample] = []
    for each in [*samples, None]:
        if each is not None and each.family == FRAMEWORK and not each.ops:
            run.append(each)
            continue
        if sum(one.gap - one.waited for one in run) >= FRAMEWORK_WITHOUT_OPS_MS * PS_PER_MS:
            found.update(map(id, run))
        run = []
    return found


def _split(before: Sample, each: Sample, cost: OpCost, *, silent: bool) -> list[tuple[str, int, int]]:
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
    elif each.ops or (of.family == FRAMEWORK and not silent):
        # The training thread waits while autograd's thread traces.
        kind, stack = TRACING, of.stack
    else:
        # What a call of the framework waits for is no wait of the line's own. Nor is that of neither line.
        elsewhere = of.in_call or (each.asleep is False and before.asleep is False)
        kind, stack = "wait", -1 if elsewhere else of.stack
    return _in_order(of is not each, (kind, stack, blocked), ran)


def _in_order(waits_first: bool, wait: _Piece, ran: list[_Piece]) -> list[_Piece]:
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
    return [(TRACING, _traced_at(before, each, of), tracing), (other, of.stack, running - tracing)]


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


def refine(samples: HostSamples | None, residual: Spans) -> tuple[Spans, dict[str, Spans], Spans]:
    """Split time that no event explains: tracing, parts `host:KIND`, and what samples do not tell either."""
    if samples is None or not len(samples.start):
        return EMPTY, {}, residual
    tracing = intersect(residual, samples.spans(TRACING))
    named = {kind: intersect(residual, samples.spans(kind)) for kind in KINDS if kind != TRACING}
    named = {kind: spans for kind, spans in named.items() if len(spans.start)}
    return tracing, named, subtract(residual, merge(tracing, *named.values()))
