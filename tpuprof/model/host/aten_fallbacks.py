"""When the training thread ran an op that XLA does not know: from the read of its inputs to the upload of its result.

torch_xla fetches the inputs of such an op, runs it on the CPU and sends the result back, all in one call. In a capture
by tpuprof the program's own reads are events, so a transfer from the device outside of them is such a fetch, unless
counters show that no op ran there: it is then a read that C++ code makes, of a tensor that stands for a number, say.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tpuprof.model.host.interval_pieces import KINDS, TRACING
from tpuprof.model.host.samples import HostSamples
from tpuprof.model.host.vocabulary import Activity, Vocabulary
from tpuprof.model.intervals import EMPTY, Int64, Spans, merge, subtract, union
from tpuprof.model.steps import Steps
from tpuprof.model.timeline import Track
from tpuprof.own_events import CHECKPOINT, GRAPH_CUT, HOST_READ, NEXT_BATCH, PREFIX, STEP, UPLOAD
from tpuprof.parts import ATEN_FALLBACK

# Reads and uploads inside these are the program's own.
_OWN = (HOST_READ, CHECKPOINT, NEXT_BATCH, UPLOAD, GRAPH_CUT)
_Array = np.ndarray[tuple[int, ...], np.dtype[Any]]
# What a stack must be in for its time to be an op's: it computes, or waits for memory.
_COMPUTING = [KINDS.index(kind) for kind in ("python", "wait", "gil")]

# Tracing around such an op, of its inputs and its result, takes so long at most (ps): two intervals between samples.
BETWEEN_PS = 10_000_000_000


def aten_fallbacks(driver: Track, vocabulary: Vocabulary, samples: HostSamples | None) -> Spans:
    """The stretches of a thread's time in such ops; empty where the capture does not tell.

    `samples` are of the training thread: without them, of another one, an op ends where its result is sent.
    """
    names = driver.plane.events.names
    # Only tpuprof's capture leaves it: it shows that the program's own reads are events, too.
    if GRAPH_CUT not in names:
        return EMPTY
    reads = unasked_reads(driver, vocabulary)
    if not len(reads):
        return EMPTY
    start, end = driver.start[reads], driver.end[reads]
    activity, own = _activity(driver, vocabulary)
    uploads = np.flatnonzero((activity == Activity.HOST_TO_DEVICE) & ~own)
    edges = [row for row, name in enumerate(names) if name.startswith((PREFIX, "StepMarker", STEP))]
    stops = np.sort(np.concatenate([start, driver.start[np.isin(driver.name_row, edges)]]))
    # Autograd's threads have no step events: their last op ends with the upload that follows it.
    bound = _following(stops, end, end if samples is not None else np.full_like(end, np.iinfo(np.int64).max))
    upload_row = np.searchsorted(driver.start[uploads], end, "left")
    has_upload = upload_row < len(uploads)
    upload_end = np.append(driver.end[uploads], 0)[np.minimum(upload_row, len(uploads))]
    uploaded = has_upload & (upload_end <= bound)
    until = np.where(uploaded, upload_end, bound)
    if samples is None:
        until = np.where(uploaded, upload_end, end)
    else:
        until = np.array(
            [_computing_until(samples, *each) for each in zip(end.tolist(), until.tolist(), strict=True)]
        )
        until = np.maximum(until.astype(np.int64), end)
    return merge(union(start, np.maximum(until, end)))


def with_fallbacks(
    by_activity: dict[Activity, Spans], named: dict[str, Spans], fallbacks: Spans
) -> tuple[dict[Activity, Spans], dict[str, Spans]]:
    """Both with the time of ops that fall back to the host under their own name, and under no other."""
    if not len(fallbacks.start):
        return by_activity, named
    by_activity = {each: subtract(spans, fallbacks) for each, spans in by_activity.items()}
    by_activity[Activity.HOST_NAMED] = merge(by_activity[Activity.HOST_NAMED], fallbacks)
    named = {name: subtract(spans, fallbacks) for name, spans in named.items()}
    return by_activity, {**named, ATEN_FALLBACK: fallbacks}


def _activity(driver: Track, vocabulary: Vocabulary) -> tuple[_Array, _Array]:
    """What each event is, and whether the program's own reads and uploads hold it."""
    names = driver.plane.events.names
    activity = np.append(vocabulary.codes(names), int(Activity.UNKNOWN))[driver.name_row]
    return activity, _inside(driver, [row for row, name in enumerate(names) if name in _OWN])


def unasked_reads(driver: Track, vocabulary: Vocabulary) -> Int64:
    """Rows of transfers from the device that no read, checkpoint or loader of the program makes."""
    activity, own = _activity(driver, vocabulary)
    reads = np.flatnonzero((activity == Activity.DEVICE_TO_HOST_SYNC) & ~own)
    return reads[~np.isin(driver.parent[reads], reads)]


def fetching_inputs(thread: Track, vocabulary: Vocabulary, steps: Steps) -> Int64:
    """Transfers in steps by which ops on the host fetch their inputs."""
    if GRAPH_CUT not in thread.plane.events.names:
        return np.empty(0, np.int64)  # only tpuprof's capture shows that the program's own reads are others
    rows = unasked_reads(thread, vocabulary)
    at = np.searchsorted(steps.start, thread.start[rows], "right") - 1
    return rows[(at >= 0) & (thread.start[rows] < steps.end[np.maximum(at, 0)])]


def _inside(driver: Track, name_rows: list[int]) -> _Array:
    """Which events lie in, or are, one of those names."""
    found = np.isin(driver.name_row, np.array(name_rows, np.int64))
    for _ in range(64):
        grown = found | np.where(driver.parent >= 0, found[np.maximum(driver.parent, 0)], False)
        if (grown == found).all():
            break
        found = grown
    return found


def _following(times: Int64, after: Int64, otherwise: Int64) -> Int64:
    row = np.searchsorted(times, after, "left")
    return np.where(row < len(times), np.append(times, 0)[np.minimum(row, len(times))], otherwise)


def _computing_until(samples: HostSamples, begin: int, until: int) -> int:
    """How long samples show the thread computing at one line, from `begin` on and no later than `until`."""
    first = int(np.searchsorted(samples.end, begin, "right"))
    last = int(np.searchsorted(samples.start, until, "left"))
    line: str | None = None
    reached = begin
    for row in range(first, last):
        kind, stack = int(samples.kind[row]), int(samples.stack[row])
        length = min(int(samples.end[row]), until) - max(int(samples.start[row]), begin)
        if kind == KINDS.index(TRACING) and length <= BETWEEN_PS:
            continue
        if kind in _COMPUTING and stack < 0:
            # A wait whose line nobody saw: what comes next tells whether the call goes on.
            continue
        source = samples.stacks[stack].source if stack >= 0 else ""
        if kind not in _COMPUTING or line not in (None, source):
            break
        line, reached = source, min(int(samples.end[row]), until)
    # What is left before the upload is shorter than the samples can tell.
    return until if until - reached <= BETWEEN_PS else reached
