"""Reads a TensorCore's plane: `XLA Modules`, `XLA Ops` and `Steps`."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tpuprof.chips import chip_of
from tpuprof.decode.columns import NO_TEXT, EventNames, Plane, TextColumn
from tpuprof.decode.hlo_shape import HBM, parse_shape
from tpuprof.decode.memory_access import HBM_SPACE, bytes_by_space
from tpuprof.decode.sums import SUMMED_STAT
from tpuprof.model.device.activity import DeviceActivity, OpEvents, OpNames, ProgramRuns
from tpuprof.model.device.kernel_flops import kernel_flops
from tpuprof.model.device.op_kind import ARRAY, MEGASCALE, ON_CHIP, OpKind, op_kind
from tpuprof.model.device.op_lines import op_lines
from tpuprof.model.device.sparse_core import read_sparse, with_sparse
from tpuprof.model.device.step_numbers import step_numbers
from tpuprof.model.intervals import EMPTY, Int64, Spans, distinct, self_time, union
from tpuprof.model.timeline import Track
from tpuprof.records import record
from tpuprof.units import GIGA, TERA

MODULES_LINE = "XLA Modules"
OPS_LINE = "XLA Ops"
ASYNC_LINE = "Async XLA Ops"
STEPS_LINE = "Steps"
TRACEME_LINE = "XLA TraceMe"
# A chip's wait for the others of its program.
BARRIER = "barrier-cores"
# A plane that states half of its generation's peak speaks of one of the device's two TensorCores (share of that half).
HALF_WITHIN = 0.05
# Events looked through at a time (rows).
_ROWS_AT_ONCE = 65_536


# A stat as the profiler serialized it, None where there is none.
_Raw = bytes | None


@record(frozen=True)
class _Facts:
    """What a plane's event metadata states of ops, one row an entry."""

    long_name: list[str]
    short_name: list[str]
    category: TextColumn
    source: TextColumn
    stack: TextColumn
    scope: TextColumn
    flops: Int64
    bytes: Int64
    accesses: list[_Raw]
    # What ops across slices state of their endpoints.
    across: list[_Raw]

    @staticmethod
    def of(plane: Plane) -> _Facts:
        """Read them, once for all lines of the plane."""
        table, count = plane.events, len(plane.events.ids)
        return _Facts(
            long_name=table.names,
            short_name=table.display_names,
            category=plane.stat_text(table.stats, "hlo_category", count),
            source=plane.stat_text(table.stats, "source", count),
            stack=plane.stat_text(table.stats, "source_stack", count),
            scope=plane.stat_text(table.stats, "tf_op", count),
            flops=plane.stat_integers(table.stats, "flops", count),
            bytes=plane.stat_integers(table.stats, "bytes_accessed", count),
            accesses=plane.stat_bytes(table.stats, "memory_access_breakdown", count),
            across=plane.stat_bytes(table.stats, "dcn_collective_info", count),
        )


class _Ops(NamedTuple):
    """Ops with the FLOPs and bytes that the metadata states, and with what follows from those and from HLO lines."""

    stated: OpNames
    complete: OpNames


class Known:
    """What planes of one host share: devices of one program state the same of its ops, which is then read once."""

    def __init__(self) -> None:
        # By the identity of what they are of, which is kept beside: its number stays its own.
        self._facts: dict[int, tuple[EventNames, _Facts]] = {}
        self._ops: dict[tuple[object, ...], _Ops] = {}
        self._lock = threading.Lock()

    def facts(self, plane: Plane) -> _Facts:
        """What the plane states of ops."""
        with self._lock:
            if id(plane.events) not in self._facts:
                self._facts[id(plane.events)] = plane.events, _Facts.of(plane)
            return self._facts[id(plane.events)][1]

    def ops(self, facts: _Facts, used: Int64, programs: list[str]) -> _Ops:
        """The ops in those rows, one program name each. Not to be written to."""
        key = (id(facts), used.tobytes(), tuple(programs))
        with self._lock:
            if key not in self._ops:
                stated = _names(facts, used, programs)
                self._ops[key] = _Ops(stated, _completed(stated, facts, used))
            return self._ops[key]


def read_tpu(
    plane: Plane,
    tracks: list[Track],
    sparse: Sequence[tuple[Plane, list[Track]]] = (),
    known: Known | None = None,
) -> DeviceActivity:
    """Read the activity of one `/device:TPU:N` plane from its lines, and of its SparseCores' planes."""
    known = known or Known()
    lines = {track.label: track for track in reversed(tracks)}
    programs = _programs(lines.get(MODULES_LINE))
    facts = known.facts(plane)
    ops, events = _ops(known, facts, lines.get(OPS_LINE), programs)
    async_ops, async_events = _ops(known, facts, lines.get(ASYNC_LINE), programs)
    sparse_work = read_sparse(sparse)
    if sparse_work is not None:
        async_ops, async_events = with_sparse(async_ops, async_events, sparse_work)
    steps = lines.get(STEPS_LINE)
    none = np.empty(0, np.int64)
    return DeviceActivity(
        name=plane.name,
        type=plane.own_stat("device_type_string") or "TPU",
        count=1,
        ops=ops,
        op_events=events,
        async_ops=async_ops,
        async_events=async_events,
        programs=programs,
        executing=union(programs.start, programs.end),
        step_start=steps.start if steps else none,
        step_end=steps.end if steps else none,
        step_number=step_numbers(steps) if steps else none,
        megacore=_megacore(plane),
        barriers=_named(lines.get(TRACEME_LINE), BARRIER),
        sparse_busy=sparse_work.busy if sparse_work is not None else None,
        peak_flops_per_s=_peak_flops(plane),
        peak_hbm_bytes_per_s=_peak(plane, "peak_hbm_bw_gigabytes_per_second", GIGA),
    )


def _named(track: Track | None, name: str) -> Spans:
    if track is None:
        return EMPTY
    rows = track.named(name)
    return union(track.start[rows], track.end[rows])


def _megacore(plane: Plane) -> bool | None:
    value = plane.own_stat("has_megacore")
    return None if value is None else value not in ("", "0")


def _peak_flops(plane: Plane) -> float | None:
    """Peak FLOP/s of the device, which with megacore is that of both TensorCores."""
    stated = _peak(plane, "peak_teraflops_per_second", TERA)
    chip = chip_of(plane.own_stat("device_type_string") or "")
    if stated is None or chip is None or not _megacore(plane):
        return stated
    half = chip.peak_flops_per_s / 2
    return chip.peak_flops_per_s if abs(stated - half) <= HALF_WITHIN * half else stated


def _programs(track: Track | None) -> ProgramRuns:
    none = np.empty(0, np.int64)
    if track is None:
        return ProgramRuns([], none, none, none)
    used, program = distinct(track.name_row)
    names = [track.plane.events.names[row] if row >= 0 else "" for row in used]
    runs = ProgramRuns(names, program, track.start, track.end)
    once = _once(runs)
    return runs if once is None else ProgramRuns(names, program[once], track.start[once], track.end[once])


def _once(runs: ProgramRuns) -> Int64 | None:
    """Rows of runs without those that the line has twice, in order of time; None where it has each once."""
    order = np.argsort(runs.start, kind="stable")
    columns = [each[order] for each in (runs.program, runs.start, runs.end)]
    twins = np.all([each[1:] == each[:-1] for each in columns], axis=0)
    return order[np.append(True, ~twins)] if twins.any() else None


def _ops(known: Known, facts: _Facts, track: Track | None, programs: ProgramRuns) -> tuple[OpNames, OpEvents]:
    none = np.empty(0, np.int64)
    if track is None:
        return _names(facts, none, []), OpEvents(none, none, none, none)
    # Names that events refer to without metadata (-1) get a nameless row rather than being lost.
    used, op = distinct(track.name_row)
    stated, names = known.ops(facts, used, _program_names(op, len(used), track, programs))
    if not stated.flops.any() or not stated.bytes.any():
        names = _completed(_with_event_costs(stated, track, op), facts, used)
    names = replace(
        names, clock_ps=_clock_totals(track, used), program_id=_program_ids(track, used, programs)
    )
    events = OpEvents(op, track.start, track.end, self_time(track.start, track.end))
    return names, events


def _program_ids(track: Track, used: Int64, programs: ProgramRuns) -> Int64:
    """The program of each op by its number; empty where the trace has the programs themselves, or no number."""
    plane, none = track.plane, np.empty(0, np.int64)
    if len(programs.start):
        return none
    found = plane.stat_integers(plane.events.stats, "program_id", len(plane.events.ids))
    return np.where(used >= 0, found[used], 0) if found.any() else none


def _clock_totals(track: Track, used: Int64) -> Int64:
    """Time of each op by the device's own clock (ps), -1 where the line's events do not all state it.

    The lines' offsets are on the host's clock, to which the device's was fitted: on a real v6e an op's durations
    differ by up to 13 % between the two. XProf's op tables show the device's.
    """
    sums = track.sums(SUMMED_STAT)
    if sums is None or sums.having < len(track):
        return np.full(len(used), -1, np.int64)
    return np.where(sums.negative, -1, sums.total)[used]


def _completed(names: OpNames, facts: _Facts, used: Int64) -> OpNames:
    """The ops with the FLOPs of known kernels, and with what of their bytes goes to or from HBM."""
    accesses = [facts.accesses[row] if row >= 0 else None for row in used.tolist()]
    return replace(names, flops=_with_kernels(names), hbm_bytes=_hbm_bytes(names, accesses))


def _with_kernels(names: OpNames) -> Int64:
    """FLOPs by op, those of known kernels from their shapes where that is more than the plane states."""
    flops = names.flops.copy()
    for row, long_name in enumerate(names.long_name):
        found = kernel_flops(names.name[row], long_name) if "custom-call(" in long_name else None
        if found is not None:
            flops[row] = max(int(flops[row]), found)
    return flops


def _hbm_bytes(names: OpNames, accesses: list[bytes | None]) -> Int64:
    """What of each op's bytes goes to or from HBM: as the profiler breaks them down, else by the layouts."""
    found = names.bytes.copy()
    for row, data in enumerate(accesses):
        spaces = bytes_by_space(data) if data is not None else None
        if spaces is not None:
            found[row] = spaces.get(HBM_SPACE, 0)
        elif ON_CHIP in names.long_name[row]:
            arrays = (parse_shape(text) for text in ARRAY.findall(names.long_name[row]))
            in_hbm = sum(each.bytes for each in arrays if each.memory_space == HBM)
            found[row] = min(int(found[row]), in_hbm)
    return found


def _names(facts: _Facts, used: Int64, programs: list[str]) -> OpNames:
    rows = used.tolist()

    def pick(values: Sequence[str]) -> list[str]:
        return [values[row] if row >= 0 else "" for row in rows]

    def texts(column: TextColumn) -> list[str]:
        # The last place is that of rows without a text, and of events without metadata.
        strings = [*column.strings, ""]
        return [strings[code] for code in np.append(column.codes, NO_TEXT)[used].tolist()]

    long_name, short_name, categories = pick(facts.long_name), pick(facts.short_name), texts(facts.category)
    known = used >= 0
    count = len(facts.flops)
    name = [short or long for long, short in zip(long_name, short_name, strict=True)]
    lines = op_lines(long_name, name, categories)
    kinds = [op_kind(long_name[row], short_name[row], categories[row]) for row in lines.first]
    kind = np.array(kinds, np.int64)[lines.of]
    across = [
        at
        for at, row in enumerate(rows)
        if row >= 0 and (facts.across[row] is not None or MEGASCALE in facts.long_name[row])
    ]
    kind[across] = OpKind.COLLECTIVE
    return OpNames(
        name=name,
        long_name=long_name,
        category=categories,
        kind=kind,
        across=frozenset(across),
        program=programs,
        source=_users_lines(texts(facts.source), texts(facts.stack)),
        scope=texts(facts.scope),
        flops=np.where(known, facts.flops[used], 0) if count else np.zeros(len(used), np.int64),
        bytes=np.where(known, facts.bytes[used], 0) if count else np.zeros(len(used), np.int64),
        lines=lines,
    )


def _users_lines(sources: list[str], stacks: list[str]) -> list[str]:
    """The lines of ops, of those that a library made the program's own that called the library."""
    if not any(stacks):
        return sources
    from tpuprof.model.device.op_sources import users_line

    return list(map(users_line, sources, stacks))


def _program_names(op: Int64, count: int, track: Track, programs: ProgramRuns) -> list[str]:
    """Name of the program that each of `count` ops belongs to, empty where unknown.

    It is the program executing when the op first ran: of a capture that begins amid a program, in the next one.
    """
    if not len(programs.start) or not len(op):
        return [""] * count
    first = _first_rows(op, count)
    amid = track.start[first] < programs.start.min()
    if amid.any():
        rows = np.flatnonzero(track.start >= programs.start.min())
        later = _first_rows(op[rows], count)
        again = amid & (later >= 0)
        first[again] = rows[later[again]]
    order = np.argsort(programs.start, kind="stable")
    position = np.searchsorted(programs.start[order], track.start[first], "right") - 1
    program = np.where(position >= 0, programs.program[order[np.maximum(position, 0)]], len(programs.names))
    names = [*programs.names, ""]
    return [names[row] for row in program.tolist()]


def _first_rows(op: Int64, count: int) -> Int64:
    """The first row of each op; all of them occur, most in the first step, so that little need be looked through."""
    first = np.full(count, -1, np.int64)
    for begin in range(0, len(op), _ROWS_AT_ONCE):
        part = op[begin : begin + _ROWS_AT_ONCE]
        found = np.full(count, -1, np.int64)
        found[part[::-1]] = np.arange(begin + len(part) - 1, begin - 1, -1)
        first = np.where(first < 0, found, first)
        if (first >= 0).all():
            break
    return first


def _with_event_costs(names: OpNames, track: Track, op: Int64) -> OpNames:
    """Take flops and bytes from the events: some captures state them there and not on the metadata."""
    stats = track.stats("flops", "bytes_accessed", "model_flops")
    if not len(stats):
        return names
    plane, rows = track.plane, len(track)
    flops = plane.stat_integers(stats, "flops", rows)
    if not flops.any():
        flops = plane.stat_integers(stats, "model_flops", rows)
    size = plane.stat_integers(stats, "bytes_accessed", rows)
    return replace(names, flops=_else(names.flops, op, flops), bytes=_else(names.bytes, op, size))


def _else(stated: Int64, op: Int64, of_events: Int64) -> Int64:
    """Values by op, those of events where the metadata states none."""
    if stated.any():
        return stated
    found = stated.copy()
    found[op] = of_events
    return found


def _peak(plane: Plane, stat: str, scale: float) -> float | None:
    """A peak rate the plane states; None where it states none or zero."""
    value = plane.own_stat(stat)
    try:
        return float(value) * scale or None if value else None
    except ValueError:
        return None
