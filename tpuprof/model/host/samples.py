"""Samples of the training thread's stack, and what the time between them went to.

A sample says where the thread was when it let go of Python's lock, and what changed since the sample before: ops
traced, CPU time, waits for a CPU, CPU time of other Python threads. Each interval between two samples is split in at
most two pieces by those changes; each piece goes to the stack at its end or at its begin.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field, replace

import numpy as np

from tpuprof.model.host.interval_pieces import GIL, KINDS, TRACING, split
from tpuprof.model.host.lock_shared import mark_kept_out
from tpuprof.model.host.op_cost import Sample, op_cost
from tpuprof.model.host.sample_events import cuts_of, joins_throughout, samples_of, times_of
from tpuprof.model.host.sample_marks import (
    alone_ps,
    function_of,
    mark_lines,
    mark_rounds,
    mark_still,
    of_round,
    quiet_functions,
    silent_frameworks,
)
from tpuprof.model.host.stacks import COMPILING, IO, LOCK, PLAIN, SLEEP, Stack, called, family
from tpuprof.model.host.unseen_gaps import told_by_others
from tpuprof.model.intervals import EMPTY, Bool, Int64, Spans, contains, intersect, merge, subtract, union
from tpuprof.model.timeline import Host, Track
from tpuprof.own_events import HOLDER, HOST_READ, SAMPLE, SET_LAST, UPLOAD
from tpuprof.records import record
from tpuprof.units import PS_PER_MS, PS_PER_US

# Time since the framework's last event in which what follows a call has hardly begun (ps): Python lets go of its lock
# as a call ends, and the sampler then needs a CPU (nine in ten times 0.1 to 0.3 ms, on a busy machine of two cores).
HARDLY_BEGUN_PS = 500 * PS_PER_US
# Calls that wait for a value of the device, and leave no event on JAX's CPU client (`np.asarray(loss)`).
READ_BY = ("asarray", "array")
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
    # How long the thread ran between looks, waited for a CPU, and what all of this is of (ps): 0 where none tells.
    ran: int = 0
    waited: int = 0
    covered: int = 0

    def was_looked_at(self, piece: int) -> bool:
        """Whether a sample in the piece itself shows it."""
        return self.looked is None or bool(self.looked[piece])

    def outside(self, spans: Spans) -> HostSamples:
        """Those whose pieces begin, and whose looks came, in none of the spans."""
        pieces, looks = ~contains(spans, self.start), ~contains(spans, self.taken)
        return replace(
            self,
            start=self.start[pieces],
            end=self.end[pieces],
            kind=self.kind[pieces],
            stack=self.stack[pieces],
            taken=self.taken[looks],
            seen=self.seen[looks],
            looked=self.looked[pieces] if self.looked is not None else None,
        )

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
    host: Host,
    unexplained: Spans | None = None,
    driver: Track | None = None,
    *,
    torch_computes: bool = False,
) -> HostSamples | None:
    """The samples of a host's trace as pieces of time; None where it has none.

    Of a framework whose calls are events (JAX), `unexplained` is the thread's time outside them; its samples count no
    ops. None of one whose samples do. `driver` is the training thread. `torch_computes` says that torch itself hands
    nothing over: it works on tensors of the CPU (JAX).
    """
    for track in host.threads:
        rows = track.named(SAMPLE)
        if len(rows):
            samples, stacks = samples_of(track, rows, track.named(HOLDER))
            if joins_throughout(samples, stacks):
                return None
            if torch_computes:
                from tpuprof.model.host.torch_on_cpu import mark_host_tensors

                mark_host_tensors(samples, stacks)
            reads = times_of(driver, HOST_READ)
            cuts, bounds = cuts_of(host, reads)
            for each in samples:
                first, last = np.searchsorted(bounds, [each.at - each.gap, each.at])
                each.cut, each.cuts = bool(last > first), int(np.searchsorted(cuts, each.at - each.late))
                first, last = np.searchsorted(reads.start, [each.at - each.gap, each.at])
                each.read = bool(last > first)
            if unexplained is not None:
                for each in samples:
                    taken = each.at - each.late
                    each.in_call = each.family == PLAIN and (
                        not _inside(unexplained, taken)
                        or (each.stack >= 0 and _has_hardly_begun(unexplained, taken, stacks[each.stack]))
                    )
            else:
                calls = times_of(driver, HOST_READ, UPLOAD)
                for each in samples:
                    each.in_call = each.family == PLAIN and _inside(calls, each.at - each.late)
            found = replace(
                _pieces(samples, stacks, counts_ops=unexplained is None),
                ran=sum(each.cpu for each in samples),
                waited=sum(each.waited for each in samples),
                covered=sum(each.gap for each in samples),
            )
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
        mark_still(samples, stacks)
    mark_rounds(samples, stacks)
    mark_kept_out(samples, stacks)
    cost = replace(op_cost(samples), as_events=not counts_ops)
    alone = alone_ps(samples, stacks)
    silent = silent_frameworks(samples) if counts_ops else set()
    mark_lines(samples, stacks, quiet_functions(samples, stacks) if counts_ops else set())
    rows: list[tuple[int, int, int, int]] = []
    held: dict[int, int] = {}
    for before, each in zip([None, *samples], samples, strict=False):
        at = each.at - each.gap
        if before is not None and abs(before.at - at) < _JOINS_WITHIN_PS:
            at = before.at
        pieces = split(before or each, each, cost, silent=id(each) in silent)
        if each.round and function_of(each, stacks) in alone:
            pieces = of_round(each, pieces, alone[function_of(each, stacks)])
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


def refine(samples: HostSamples | None, residual: Spans) -> tuple[Spans, dict[str, Spans], Spans]:
    """Split time that no event explains: tracing, parts `host:KIND`, and what samples do not tell either."""
    if samples is None or not len(samples.start):
        return EMPTY, {}, residual
    tracing = intersect(residual, samples.spans(TRACING))
    named = {kind: intersect(residual, samples.spans(kind)) for kind in KINDS if kind != TRACING}
    named = {kind: spans for kind, spans in named.items() if len(spans.start)}
    return tracing, named, subtract(residual, merge(tracing, *named.values()))
