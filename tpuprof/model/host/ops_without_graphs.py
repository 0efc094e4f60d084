"""Stretches of eager ops of which none became a program: their tensors are in the host's memory.

Unless ops are deferred, TorchTPU builds a graph of each op on the device as soon as it is called, in a thread of its
own: 131 graphs per step of 131 ops. A mask that was made row by row of CPU tensors took 9,155 ops per step of 1 us
each, and 8 graphs were built.
"""

from __future__ import annotations

import numpy as np

from tpuprof.model.device.cpu import Queue
from tpuprof.model.host.eager_dispatch import BACKWARD_MARK, LOOKUP_MARK, OPTIMIZER_MARK, outermost_ops
from tpuprof.model.host.event_times import COMPILED_REGION
from tpuprof.model.host.ops_on_host import ON_HOST_FROM_PS
from tpuprof.model.host.queued_programs import programs_counted
from tpuprof.model.host.vocabulary import Activity, Vocabulary
from tpuprof.model.intervals import EMPTY, Int64, Spans, covered, subtract, union
from tpuprof.model.timeline import Host, Track, by_plane

# Ops of a stretch for each graph that is built soon after it, from which they are not those graphs' ops (ratio): the
# thread that builds graphs may be behind, but builds one for each op. A judgement, as for what the verdict says.
OPS_PER_GRAPH = 8
# What a thread that builds graphs is behind the call of an op at most (ps): as long as a pause on the way from one op
# to the next (`EAGER_PAUSE_PS`). Ops so shortly before a graph may be that graph's.
BEHIND_PS = 300_000_000
# Named events of calls that are no eager ops.
_OF_ITS_OWN = (COMPILED_REGION, LOOKUP_MARK, BACKWARD_MARK, OPTIMIZER_MARK)


def ops_without_graphs(host: Host, driver: Track | None, vocabulary: Vocabulary) -> Spans:
    """When the training thread calls ops one after the other of which no graph is built.

    Only of ops that are not deferred: one graph of many ops is built when their values are needed.
    """
    if driver is None or not vocabulary.eager:
        return EMPTY
    rows = outermost_ops(driver, vocabulary)
    built, compiling = _built(host, vocabulary)
    called, calls = _calls(host, vocabulary)
    # Where no graph is seen at all, the trace may not show them.
    if not len(built) or not len(rows):
        return EMPTY
    # Where the device is behind, graphs of a stretch may be built much later, or after the recording.
    if Queue(*programs_counted(host, vocabulary)).grows:
        return EMPTY
    starts, ends = driver.start[rows], driver.end[rows]
    # In a long pause the thread does something else: `backward()` calls no op of its own.
    paused = starts[1:][starts[1:] - ends[:-1] > BEHIND_PS]
    edges = np.sort(np.concatenate((built, called, paused)))
    until = np.append(edges, int(driver.end.max()) + BEHIND_PS) - BEHIND_PS
    begin = np.append(int(driver.start.min()), edges)
    long = until - begin >= ON_HOST_FROM_PS
    begin, until = begin[long], until[long]
    first, last = np.searchsorted(starts, begin), np.searchsorted(starts, until)
    after = np.searchsorted(built, until + (until - begin)) - np.searchsorted(built, until)
    chosen = last - first >= OPS_PER_GRAPH * np.maximum(after, 1)
    # Graphs wait while one compiles.
    chosen &= covered(compiling, begin, until + (until - begin)) == 0
    first, last = first[chosen], last[chosen]
    # From the first of these ops to the last: before and after the thread may do anything else.
    return subtract(union(starts[first], ends[last - 1]), calls)


def _calls(host: Host, vocabulary: Vocabulary) -> tuple[Int64, Spans]:
    """When what is no op begins to be called, and when it runs: compiled functions build no graph, optimizers may."""
    names = [vocabulary.named(each) for each in _OF_ITS_OWN]
    found = []
    for track in host.threads:
        rows = [np.isin(track.name_row, each.rows(track.plane.events.names)) for each in names]
        chosen = np.logical_or.reduce(rows)
        found.append((track.start[chosen], track.end[chosen]))
    start, end = (np.concatenate(each) for each in zip(*found, strict=True))
    return start, union(start, end)


def _built(host: Host, vocabulary: Vocabulary) -> tuple[Int64, Spans]:
    """When graphs begin to be built, in time order, and when anything compiles: building waits for that."""
    names = vocabulary.named("built_graph")
    rows = by_plane(host.threads, lambda plane: names.rows(plane.events.names))
    begun = [track.start[np.isin(track.name_row, rows[id(track.plane)])] for track in host.threads]
    codes = by_plane(host.threads, lambda plane: np.append(vocabulary.codes(plane.events.names), 0))
    compiles = [codes[id(track.plane)][track.name_row] == int(Activity.COMPILE) for track in host.threads]
    start = [track.start[each] for track, each in zip(host.threads, compiles, strict=True)]
    end = [track.end[each] for track, each in zip(host.threads, compiles, strict=True)]
    return np.sort(np.concatenate(begun)), union(np.concatenate(start), np.concatenate(end))
