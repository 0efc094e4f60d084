"""Which op of XLA's CPU client each thread works for, by the parts that ops hand to a pool of threads.

A large dot hands parts of its work to the pool, and its own event ends at once. Each hand-over is an event with a
number (`ThreadpoolListener::Record`, `_p`). The thread that takes the part begins and ends it in events of its own, the
begin with that number (`_c`). So time of a thread belongs to the op whose event, or whose part, is the innermost one.

The thread that ends the last part of an op goes on with whatever waited for it, in the same part, and only then writes
the op's `end:` event: what it runs meanwhile is not the op's work.
"""

from __future__ import annotations

import numpy as np

from tpuprof.model.device.activity import OpEvents, OpNames, WorkSpans
from tpuprof.model.device.op_kind import OpKind
from tpuprof.model.device.pool_threads import BEGINS, ENDS
from tpuprof.model.intervals import Int64, covered, distinct, flatten, nesting, union
from tpuprof.model.timeline import Track
from tpuprof.records import record

HANDS_OVER = "ThreadpoolListener::Record"
# In place of a row, where there is none.
NO_OP = -1


@record
class Stretches:
    """When threads worked for ops: `run` is the row of the execution of an op. `handed` are those with parts."""

    run: Int64
    start: Int64
    end: Int64
    handed: Int64


@record
class _Thread:
    """What nests on one thread: executions of ops, then parts, then the executor; and what it handed over.

    `own` are stretches by the innermost of them. `number` is that of the hand-over that each part comes from, of those
    in `handed` the time is in `handed_at`.
    """

    runs: Int64
    parts: int
    own_start: Int64
    own_end: Int64
    own: Int64
    number: Int64
    handed: Int64
    handed_at: Int64

    def inside(self, times: Int64) -> Int64:
        """The row of what is innermost at each time, `NO_OP` where nothing is."""
        if not len(self.own):
            return np.full(len(times), NO_OP, np.int64)
        at = np.searchsorted(self.own_start, times, "right") - 1
        found = (at >= 0) & (times <= self.own_end[at])
        return np.where(found, self.own[at], NO_OP)


def stretches_of(
    tracks: list[Track], runs: list[tuple[Int64, Int64, Int64]], executors: list[tuple[Int64, Int64]]
) -> Stretches | None:
    """When each execution of an op had a thread; None where no thread tells what it works on.

    Of each track: rows, starts and ends of the executions of ops on it, and when it was in the executor of a program.
    """
    if not any(len(track.named(BEGINS)) for track in tracks):
        return None
    threads = [_thread(*each) for each in zip(tracks, runs, executors, strict=True)]
    owners, handed = _owners(threads)
    found = []
    for thread, owner in zip(threads, owners, strict=True):
        of_run = np.concatenate((thread.runs, owner))
        # What is left are executors: their time is no op's.
        named = thread.own < len(of_run)
        run = of_run[thread.own[named]]
        keep = run != NO_OP
        found.append((run[keep], thread.own_start[named][keep], thread.own_end[named][keep]))
    run, start, end = (np.concatenate(columns) for columns in zip(*found, strict=True))
    return Stretches(run, start, end, handed)


def _thread(track: Track, runs: tuple[Int64, Int64, Int64], executor: tuple[Int64, Int64]) -> _Thread:
    rows, start, end = runs
    part_start, part_end, number = _parts(track)
    starts = np.concatenate((start, part_start, executor[0]))
    ends = np.concatenate((end, part_end, executor[1]))
    parent = nesting(starts, ends)
    own = flatten(starts, ends, parent)
    first, parts = len(rows), len(part_start)
    # The first executor in a part runs what waited for its op.
    until = np.full(len(starts), np.iinfo(np.int64).max)
    inner = np.arange(first + parts, len(starts))
    inner = inner[(parent[inner] >= first) & (parent[inner] < first + parts)]
    np.minimum.at(until, parent[inner], starts[inner])
    keep = own.start < until[own.event]
    handed = track.named(HANDS_OVER)
    return _Thread(
        rows,
        parts,
        own.start[keep],
        own.end[keep],
        own.event[keep],
        number,
        track.plane.stat_integers(track.stats("_p"), "_p", len(track))[handed],
        track.start[handed],
    )


def _parts(track: Track) -> tuple[Int64, Int64, Int64]:
    """Start, end and number of the parts that a thread worked on. Parts may lie in one another.

    A part that goes on after the profiler ends with the thread's last event; one that began before it has no number.
    """
    begins, ends = track.named(BEGINS), track.named(ENDS)
    rows = np.concatenate((begins, ends))
    begin = np.arange(len(rows)) < len(begins)
    order = np.lexsort((rows, track.start[rows]))
    rows, begin = rows[order], begin[order]
    depth = np.cumsum(np.where(begin, 1, -1))
    # Of the marks of one depth a begin is followed by its end.
    level = np.where(begin, depth, depth + 1)
    order = np.argsort(level, kind="stable")
    rows, begin, level = rows[order], begin[order], level[order]
    at = np.flatnonzero(begin)
    after = np.minimum(at + 1, len(rows) - 1)
    ended = (at + 1 < len(rows)) & ~begin[after] & (level[after] == level[at])
    last = int(track.end.max()) if len(track) else 0
    numbers = track.plane.stat_integers(track.stats("_c"), "_c", len(track))
    start = track.start[rows[at]]
    return start, np.where(ended, track.start[rows[after]], last), numbers[rows[at]]


def _owners(threads: list[_Thread]) -> tuple[list[Int64], Int64]:
    """The execution of an op for which each part of each thread is, `NO_OP` where none is; and those with parts.

    A part may hand over further parts: these belong to the same op.
    """
    first = np.cumsum([0, *(thread.parts for thread in threads)])
    number = np.concatenate([thread.number for thread in threads])
    handed = np.concatenate([thread.handed for thread in threads])
    run, part = [], []
    for thread, begin in zip(threads, first, strict=False):
        inside = thread.inside(thread.handed_at)
        ops = len(thread.runs)
        of_op, of_part = (inside >= 0) & (inside < ops), (inside >= ops) & (inside < ops + thread.parts)
        run.append(np.where(of_op, thread.runs[np.where(of_op, inside, 0)] if ops else NO_OP, NO_OP))
        part.append(np.where(of_part, inside - ops + begin, NO_OP))
    order = np.argsort(handed, kind="stable")
    handed, runs, parts = handed[order], np.concatenate(run)[order], np.concatenate(part)[order]
    owner = np.full(len(number), NO_OP, np.int64)
    around = np.full(len(number), NO_OP, np.int64)
    if len(handed):
        at = np.minimum(np.searchsorted(handed, number), len(handed) - 1)
        known = (handed[at] == number) & (number != 0)
        owner = np.where(known, runs[at], NO_OP)
        around = np.where(known, parts[at], NO_OP)
    while True:
        open_ = (owner == NO_OP) & (around != NO_OP)
        found = np.where(open_, owner[around], NO_OP)
        if not (found != NO_OP).any():
            break
        owner = np.where(open_, found, owner)
    return np.split(owner, first[1:-1]), distinct(runs[runs != NO_OP])[0]


def worked(found: Stretches, paired: OpEvents, launched: Int64, names: OpNames) -> tuple[OpEvents, WorkSpans]:
    """Executions of ops as their threads tell of them, and when any thread worked for each op.

    `paired` are executions until their twins, `launched` when the launch of each was over. An op that handed no part to
    the pool, and ends later, works elsewhere until its twin. Own time of an op is when a thread, or several, worked for
    it; of a loop or call, when its thread did and no op that computes or moves data ran anywhere.
    """
    end = np.maximum(paired.end, launched)
    container = names.kind[paired.op] == OpKind.CONTAINER
    # A loop lasts until its twin, whatever its own thread hands over.
    handed = found.handed[~container[found.handed]]
    end[handed] = launched[handed]
    np.maximum.at(end, found.run, found.end)
    alone = ~container & (end > launched)
    alone[handed] = False
    rest = np.flatnonzero(alone)
    run = np.concatenate((found.run, rest))
    start, until = np.concatenate((found.start, launched[rest])), np.concatenate((found.end, end[rest]))
    leaf = ~container[run]
    own = _lengths_of_unions(run[leaf], start[leaf], until[leaf], len(end))
    leaves = union(start[leaf], until[leaf])
    length = (until - start - covered(leaves, start, until))[~leaf]
    np.add.at(own, run[~leaf], length)
    events = OpEvents(paired.op, paired.start, end, own)
    return events, WorkSpans(paired.op[run[leaf]], start[leaf], until[leaf])


def _lengths_of_unions(label: Int64, start: Int64, end: Int64, labels: int) -> Int64:
    """How long at least one of the spans of each label lasts."""
    order = np.lexsort((start, label))
    label, start, end = label[order], start[order], end[order]
    same = np.append(False, label[1:] == label[:-1])
    # Threads work for an op side by side: of such ops alone spans overlap.
    side_by_side = np.zeros(labels, np.bool_)
    side_by_side[label[same & (np.append(0, end[:-1]) > start)]] = True
    rows = np.flatnonzero(side_by_side[label])
    begin = start.copy()
    latest = 0
    for row, again, first, until in zip(
        rows.tolist(), same[rows].tolist(), start[rows].tolist(), end[rows].tolist(), strict=True
    ):
        latest = latest if again else first
        begin[row] = min(max(first, latest), until)
        latest = max(latest, until)
    lengths = np.zeros(labels, np.int64)
    np.add.at(lengths, label, end - begin)
    return lengths
