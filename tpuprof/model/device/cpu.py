"""Reads the device of PJRT_DEVICE=CPU from host threads, where XLA's CPU client leaves it.

An op's own event there is only its launch: a large dot hands its work to a thread pool and the event ends
long before the work does. `pool_parts.py` says which thread works for which op. Where threads do not tell, the work
runs from the op's start to its `end: NAME` twin, whose `_c` stat equals the op's `_p`. A program's execution is
`ThunkExecutor::Execute` and its wait for completion.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tpuprof.decode.columns import NO_TEXT
from tpuprof.model.device.activity import DeviceActivity, OpEvents, OpNames, ProgramRuns, WorkSpans, no_ops
from tpuprof.model.device.op_kind import OpKind, op_kind
from tpuprof.model.device.op_lines import op_lines
from tpuprof.model.device.pool_threads import BEGINS, working_beside
from tpuprof.model.intervals import EMPTY, Int64, Spans, covered, merge, union
from tpuprof.model.timeline import Track
from tpuprof.records import record

EXECUTE = "ThunkExecutor::Execute"
WAIT = "ThunkExecutor::Execute (wait for completion)"
TWIN_PREFIX = "end: "

# (program, op) -> (scope, source), from HLO protos; empty strings where unknown.
Describe = Callable[[str, str], tuple[str, str]]
# (program, op) -> what the op does where its name need not say it, from the same; empty else.
WorkOf = Callable[[str, str], str]


# Programs of each device by which it must be behind (count): one began before the profiler, one has not ended yet, and
# one more may be queued. Of 88 captures on PJRT_DEVICE=CPU those that keep up lacked one per device; three of JAX and
# dynamo lacked 1 to 3 of 32 and more; two whose host runs ahead lacked all of 8 and 32 of 93.
BEHIND_BY = 3
# Programs that ran, of those handed over, up to which the device is behind (share): between 66 % and 94 % in the same.
BEHIND_TO_SHARE = 0.75
# Share of the middle step from which a thread never rests (share): the complement of what is worth naming. Of ten
# captures of TorchTPU on a CPU plugin nine had 0.02 to 0.35, and the one whose device was behind 0.93 (in its steps
# from the third on 0.93 to 1).
NEVER_RESTS_FROM_SHARE = 0.9
# An event of XLA's CPU client (TFRT's or PjRt's): a program is handed over. It runs later, on another thread.
HANDED_OVER = "CpuExecutable::ExecuteHelper"
# How threads are called that XLA's CPU client makes for itself.
RUNTIME_THREADS = "tf_XLA"
# Those of them that run parts of programs, each with executor events of its own.
POOL = "tf_XLAEigen"
# Marks of parts of ops on such threads, without length.
POOL_MARKS = "ThreadpoolListener::"


@record(frozen=True)
class Queue:
    """Programs handed to the CPU client while the profiler was on, and those that ran meanwhile, over all devices.

    `feeding` is the share of a step in which another thread than the training thread hands programs over, as TorchTPU
    has one; only of traces without a device plane, which are not `seen`.
    """

    handed_over: int = 0
    ran: int = 0
    devices: int = 1
    feeding: float = 0.0
    seen: bool = True

    @property
    def never_rests(self) -> bool:
        """Whether the thread that hands programs over works all along: the training thread is then ahead of it."""
        return self.feeding >= NEVER_RESTS_FROM_SHARE

    @property
    def grows(self) -> bool:
        """Whether the devices are behind: they run clearly fewer programs than are handed to them.

        Also where the thread that hands them over never rests: the training thread is then ahead of it.
        """
        if self.never_rests:
            return True
        missing = self.handed_over - self.ran
        return missing >= BEHIND_BY * self.devices and self.ran <= BEHIND_TO_SHARE * self.handed_over


def queue_of(threads: list[Track], devices: int) -> Queue:
    """How many programs were handed over and how many ran.

    The host runs ahead without bound where a loop reads no value and donates no buffer. A program that began before the
    profiler leaves no event, so a short profile of such a loop shows an idle device, or none, while it is busy.
    Each program has one outermost wait for its completion; loop bodies have their own inside. A callback of a program
    runs on a thread of XLA's own: what it hands over is part of the program that waits for it, and does not queue.
    """
    handed_over = _handed_over([each for each in threads if not each.label.startswith(RUNTIME_THREADS)])
    # Where no other thread hands programs over, these are the program's own calls.
    handed_over = handed_over or _handed_over(threads)
    ran = sum(
        len(each.outermost(_rows_named(each, lambda name: name == WAIT)))
        for each in threads
        if not each.label.startswith(POOL)
    )
    return Queue(handed_over, min(ran, handed_over), devices)


def _handed_over(threads: list[Track]) -> int:
    return sum(len(_rows_named(each, lambda name: name.endswith(HANDED_OVER))) for each in threads)


@record
class _Part:
    """Op events of one thread: rows of the shared op table, spans, and the ids that pair them with twins."""

    op: Int64
    start: Int64
    end: Int64
    producer: Int64


def read_cpu(threads: list[Track], count: int, describe: Describe, work_of: WorkOf) -> DeviceActivity | None:
    """All virtual CPU devices of a process as one activity; None where no XLA program ran."""
    table: dict[tuple[str, str], int] = {}
    executing = merge(*(_named_spans(track, (EXECUTE, WAIT)) for track in threads))
    on = [track for track in threads if len(track.stats("hlo_op")) or len(track.named(BEGINS))]
    parts = [_op_part(track, table) for track in on]
    twins = [_twins(track) for track in threads] if table else []
    if not len(executing.start) and not table:
        return None
    names = _op_names(list(table), describe, work_of)
    events, at_work = _events(on, parts, _paired(parts, twins), names)
    async_ops, async_events = no_ops()
    return DeviceActivity(
        name="/host:CPU",
        type="CPU",
        count=count,
        ops=names,
        op_events=events,
        async_ops=async_ops,
        async_events=async_events,
        programs=_programs(threads),
        executing=executing,
        at_work=at_work,
        beside_callbacks=_beside_callbacks(threads, dict(zip(map(id, on), parts, strict=True)), names),
    )


def _beside_callbacks(threads: list[Track], parts: dict[int, _Part], names: OpNames) -> Spans | None:
    """When threads work on something else than callbacks; None without a callback, or where threads do not tell."""
    calls = names.kind == OpKind.HOST_CALLBACK
    if not calls.any():
        return None
    spans = []
    for track in threads:
        part = parts.get(id(track))
        if part is None:
            spans.append((track, EMPTY, EMPTY))
            continue
        own = calls[part.op]
        spans.append((track, union(part.start, part.end), union(part.start[own], part.end[own])))
    return working_beside(spans)


def own_programs(track: Track) -> Spans:
    """When a thread runs programs itself, from the first op to the last.

    The CPU client runs a program in the call that hands it over, where it may.
    """
    hlo_op = track.plane.stat_text(track.stats("hlo_op"), "hlo_op", len(track))
    runs = hlo_op.codes != NO_TEXT
    runs[_rows_named(track, lambda name: name in (EXECUTE, WAIT))] = True
    rows = track.outermost(np.flatnonzero(runs))
    _, first, which = np.unique(track.parent[rows], return_index=True, return_inverse=True)
    end = np.zeros(len(first), np.int64)
    np.maximum.at(end, which, track.end[rows])
    return union(track.start[rows][first], end)


def _named_spans(track: Track, names: tuple[str, ...]) -> Spans:
    rows = _rows_named(track, lambda name: name in names)
    return union(track.start[rows], track.end[rows])


def _rows_named(track: Track, wanted: Callable[[str], bool]) -> Int64:
    match = np.array([wanted(name) for name in track.plane.events.names] + [False], np.bool_)
    return np.flatnonzero(match[track.name_row])


def _op_part(track: Track, table: dict[tuple[str, str], int]) -> _Part:
    """The op launches of one thread, their (program, op) entered into the shared table."""
    stats, plane, rows = track.stats("hlo_op", "hlo_module", "program_id", "_p"), track.plane, len(track)
    op = plane.stat_text(stats, "hlo_op", rows)
    program = plane.stat_text(stats, "hlo_module", rows)
    numbers = plane.stat_integers(stats, "program_id", rows)
    chosen = np.flatnonzero(op.codes != NO_TEXT)
    triples = np.stack((program.codes[chosen], numbers[chosen], op.codes[chosen]), axis=1)
    distinct, which = np.unique(triples, axis=0, return_inverse=True)
    ids = np.empty(len(distinct), np.int64)
    for row, (program_code, program_id, op_code) in enumerate(distinct.tolist()):
        name = program.strings[program_code] if program_code != NO_TEXT else ""
        key = (f"{name}({program_id})", op.strings[op_code])
        ids[row] = table.setdefault(key, len(table))
    producer = plane.stat_integers(stats, "_p", rows)[chosen]
    return _Part(ids[which.reshape(-1)], track.start[chosen], track.end[chosen], producer)


def _twins(track: Track) -> tuple[Int64, Int64, Int64]:
    """Consumer ids and times of the thread's `end: NAME` events, and where what ran before in its place begins.

    The thread that completes an op first runs what waited for it, in an executor's event, and then writes the twin. So
    where the last event before a twin is an executor's, the op was over when that began; else the place is that of the
    twin itself.
    """
    rows = _rows_named(track, lambda name: name.startswith(TWIN_PREFIX))
    consumer = track.plane.stat_integers(track.stats("_c"), "_c", len(track))[rows]
    rows, consumer = rows[consumer != 0], consumer[consumer != 0]
    finish = track.end[rows]
    others = _rows_named(track, lambda name: not name.startswith((TWIN_PREFIX, POOL_MARKS)))
    if not len(others):
        return consumer, finish, finish
    # Of events that end together the outermost is last.
    others = others[np.lexsort((-track.start[others], track.end[others]))]
    last = others[np.maximum(np.searchsorted(track.end[others], track.start[rows], "right") - 1, 0)]
    executors = np.zeros(len(track), np.bool_)
    executors[_rows_named(track, lambda name: name == EXECUTE)] = True
    before = executors[last] & (track.end[last] <= track.start[rows])
    return consumer, finish, np.where(before, track.start[last], finish)


def _paired(parts: list[_Part], twins: list[tuple[Int64, Int64, Int64]]) -> OpEvents:
    """Join each launch with its twin, wherever that ran; a launch without one keeps its own end."""
    none = np.empty(0, np.int64)
    if not twins:
        return OpEvents(none, none, none, none)
    op = np.concatenate([part.op for part in parts])
    start = np.concatenate([part.start for part in parts])
    end = np.concatenate([part.end for part in parts])
    producer = np.concatenate([part.producer for part in parts])
    consumer, finish, before = (np.concatenate(columns) for columns in zip(*twins, strict=True))
    order = np.argsort(consumer, kind="stable")
    consumer, finish, before = consumer[order], finish[order], before[order]
    if len(consumer):
        at = np.minimum(np.searchsorted(consumer, producer), len(consumer) - 1)
        found: npt.NDArray[np.bool_] = (consumer[at] == producer) & (producer != 0)
        # An executor that began before the op has launched it, and not waited for it.
        over = np.where(before[at] > start, before[at], finish[at])
        end = np.where(found, np.maximum(end, over), end)
    return OpEvents(op, start, end, end - start)


def _events(
    on: list[Track], parts: list[_Part], paired: OpEvents, names: OpNames
) -> tuple[OpEvents, WorkSpans | None]:
    """Executions of ops with their own time, and when threads worked for them, where threads tell."""
    first = np.cumsum([0, *(len(part.op) for part in parts)])
    runs = [
        (np.arange(begin, begin + len(part.op)), part.start, part.end)
        for part, begin in zip(parts, first, strict=False)
    ]
    # Not beside the imports: only a trace of XLA's CPU client needs it.
    from tpuprof.model.device.pool_parts import stretches_of, worked

    found = stretches_of(on, runs, [_executors(track) for track in on])
    if found is None:
        return _with_self_time(paired, names), None
    return worked(found, paired, np.concatenate([part.end for part in parts]), names)


def _executors(track: Track) -> tuple[Int64, Int64]:
    rows = _rows_named(track, lambda name: name == EXECUTE)
    return track.start[rows], track.end[rows]


def _op_names(keys: list[tuple[str, str]], describe: Describe, work_of: WorkOf) -> OpNames:
    described = [describe(program, op) for program, op in keys]
    categories = [work_of(program, op) for program, op in keys]
    names, long_names = [op for _, op in keys], [""] * len(keys)
    lines = op_lines(long_names, names, categories)
    return OpNames(
        name=names,
        long_name=long_names,
        category=categories,
        kind=np.array([op_kind("", names[row], categories[row]) for row in lines.first], np.int64)[lines.of],
        program=[program for program, _ in keys],
        source=[source for _, source in described],
        scope=[scope for scope, _ in described],
        flops=np.zeros(len(keys), np.int64),
        bytes=np.zeros(len(keys), np.int64),
        lines=lines,
    )


def _with_self_time(events: OpEvents, names: OpNames) -> OpEvents:
    """Take out of each `while` or `call` the time its body's ops were running."""
    if not len(events.op):
        return events
    container = names.kind[events.op] == OpKind.CONTAINER
    if not container.any():
        return events
    leaves = union(events.start[~container], events.end[~container])
    inside = covered(leaves, events.start, events.end)
    self_ps = np.where(
        container, np.maximum(events.end - events.start - inside, 0), events.end - events.start
    )
    return OpEvents(events.op, events.start, events.end, self_ps)


def _programs(threads: list[Track]) -> ProgramRuns:
    """Program executions; the CPU client names no program on them, so they share the name of the thunk executor."""
    rows = [(track, _rows_named(track, lambda name: name == WAIT)) for track in threads]
    start = np.concatenate([track.start[at] for track, at in rows]) if rows else np.empty(0, np.int64)
    end = np.concatenate([track.end[at] for track, at in rows]) if rows else np.empty(0, np.int64)
    order = np.argsort(start, kind="stable")
    return ProgramRuns([WAIT], np.zeros(len(start), np.int64), start[order], end[order])
