"""Every compile in the trace: when, how long, of which graph."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tpuprof.model.compile.cause import LAST_BATCH, NOT_THE_LAST, CompileCause, explain
from tpuprof.model.compile.hlo_metadata import hlo_protos
from tpuprof.model.compile.newest import number_of, with_newest
from tpuprof.model.compile.programs import Programs
from tpuprof.model.device.activity import DeviceActivity
from tpuprof.model.host.vocabulary import NameSet, Vocabulary
from tpuprof.model.intervals import Int64
from tpuprof.model.steps import Steps
from tpuprof.model.telemetry import StepRecord
from tpuprof.model.timeline import Host, Track, by_plane
from tpuprof.records import record
from tpuprof.units import PS_PER_MS

# `PjRtCApiClient::CompileAndLoad(tt_jit_linear)`: TorchTPU's compile events name the program.
_IN_BRACKETS = re.compile(r"^[\w:]+\(([^()]+)\)$")
# `SyncTensorsGraph.66628(14940262714490726846)`: torch_xla numbers its graphs, others do not.
_BASE = re.compile(r"^(.*?)(?:\.\d+)?\(\d+\)$")
# A program that first runs after at least this pause of the device was compiled in it (ps). The smallest graphs
# take tens of milliseconds to compile (a 2-layer decoder on CPU: 800 ms; a single add on a v6e: 80 ms).
COMPILE_FROM_PS = 20 * PS_PER_MS
NOT_COMPARED = CompileCause("unknown", "the graphs were not compared")
# Kinds of cause by which one part of a program has many graphs.
_OF_MANY = ("constant", "shape")
# What is added to the cause of a compile that nothing shows but the device: a check on compiles may fail by it.
INFERRED = "; inferred: the trace has no event of it, and the device idled before the program first ran"


@record(frozen=True)
class Compile:
    """One compile. `step` is the row of the step it ran in, None outside any; `graph_hash` empty if unknown.

    `program` is what it made, `graph(fingerprint)`: the program that first ran after it; empty if none did.
    `frames` are the Python frames that led to it, user first, where the trace has them; `in_read` says that they are of
    a read of a value, which ran the graph by itself. `defined` is the jitted function with the line where it is
    defined, as a frame; empty where the trace does not tell it.
    """

    step: int | None
    graph_hash: str
    program: str
    start_ps: int
    duration_ps: int
    cause: CompileCause = NOT_COMPARED
    frames: tuple[str, ...] = ()
    in_read: bool = False
    defined: str = ""


def find_compiles(
    host: Host,
    vocabulary: Vocabulary,
    steps: Steps,
    devices: list[DeviceActivity],
    records: Sequence[StepRecord] = (),
) -> list[Compile]:
    """Compiles of one host in time order, from the first of the vocabulary's compile events that occurs.

    Each is distinguished from the nearest graph that ran or was compiled before it. `records` are what the process
    noted of its steps: they tell of a trace without such events whether a step compiled.
    """
    for event in vocabulary.compile_events:
        found = _on_all_threads(host, event, vocabulary, steps)
        if found:
            named = _with_programs(sorted(found, key=lambda each: each.start_ps), devices)
            protos = dict(hlo_protos(host.trace))
            return _with_causes(with_newest(named, first_runs(devices), protos), devices, protos)
    inferred = _from_fingerprints(host, vocabulary, steps, devices, records)
    return _said_so(_with_causes(inferred, devices, dict(hlo_protos(host.trace))))


def _from_fingerprints(
    host: Host,
    vocabulary: Vocabulary,
    steps: Steps,
    devices: list[DeviceActivity],
    records: Sequence[StepRecord],
) -> list[Compile]:
    """Recompiles seen from the device alone: a graph that runs under a new fingerprint once training is under way.

    The host left no compile event then, so what the compile took is the time the device idled before the program
    first ran: more than that it cannot have cost. A program that takes turns with others idles the device as well,
    while the host traces it again: notes of the steps or the host's events tell that from a compile.
    """
    known: set[str] = set()
    found = []
    for program, when in sorted(first_runs(devices).items(), key=lambda each: each[1]):
        name = function_of(program)
        row = _step_at(steps, when)
        if name in known and row is not None and row > 0:
            idle = min(_idle_before(device, when) for device in devices)
            # Without such a pause the program was there already, from before the capture.
            if idle >= COMPILE_FROM_PS and _may_have_compiled(
                host, vocabulary, steps, records, row, (when - idle, when)
            ):
                found.append(Compile(row, "", program, when - idle, idle, NOT_COMPARED))
        known.add(name)
    return found


def _may_have_compiled(
    host: Host,
    vocabulary: Vocabulary,
    steps: Steps,
    records: Sequence[StepRecord],
    row: int,
    idle: tuple[int, int],
) -> bool:
    """Whether neither the notes of the steps nor the host's events show that the device idled for something else."""
    noted = _noted_compile(steps, records, row)
    return not _handed_over_in(host, vocabulary, *idle) if noted is None else noted


def _noted_compile(steps: Steps, records: Sequence[StepRecord], row: int) -> bool | None:
    """Whether a captured step compiled by its notes, or one before it: the host runs ahead. None without notes."""
    captured = [each for each in records if each.captured]
    # A process that counts neither graphs nor compiles cannot tell.
    if not captured or not any(each.compiles or each.graphs for each in records):
        return None
    numbers = set(steps.number.tolist())
    known = row + 1 < len(steps) and any(each.step in numbers for each in captured)
    return any(
        each.compiles or each.new_graphs
        for each in captured
        if not known or each.step < int(steps.number[row + 1])
    )


def _handed_over_in(host: Host, vocabulary: Vocabulary, start: int, end: int) -> bool:
    """Whether the host's trace has a hand-over in that time (ps), beside which it would have the compile as well."""
    rows = by_plane(host.threads, lambda plane: vocabulary.beside_compiles.rows(plane.events.names))
    return any(
        bool(
            np.any(np.isin(track.name_row, rows[id(track.plane)]) & (track.start < end) & (track.end > start))
        )
        for track in host.threads
        if len(rows[id(track.plane)])
    )


def _said_so(compiles: list[Compile]) -> list[Compile]:
    """The compiles, with a word that they are inferred."""
    return [
        replace(each, cause=replace(each.cause, detail=each.cause.detail + INFERRED)) for each in compiles
    ]


def _idle_before(device: DeviceActivity, when: int) -> int:
    """How long (ps) a device had done nothing when a program began."""
    row = int(np.searchsorted(device.busy.end, when, "right")) - 1
    return max(when - int(device.busy.end[row]), 0) if row >= 0 else 0


def _with_causes(
    compiles: list[Compile], devices: list[DeviceActivity], protos: dict[str, bytes]
) -> list[Compile]:
    """Compare each compile's program with those there were before it; without HLO, all stays as it is."""
    if not protos or not compiles:
        return compiles
    known, programs = [*{**first_runs(devices), **protos}], Programs(protos)
    explained, compared = [], []
    for each in compiles:
        earlier = [name for name in earlier_programs(each, compiles, known) if name in protos]
        cause = explain(each.program, earlier, programs)
        compared.append(earlier[cause.compared] if cause.compared >= 0 else "")
        explained.append(replace(each, cause=cause))
    return without_last_batch(with_first_of_many(explained, compared))


def with_first_of_many(compiles: list[Compile], compared: list[str]) -> list[Compile]:
    """The compiles; the first of many programs that differ in shapes, or in constants alone, has the others' cause.

    `compared` names the program that each was compared with. The first one differs from other programs in its ops, as
    the first CutMix among steps of MixUp does, and what makes all of them is one thing.
    """
    found = list(compiles)
    # By the program that was compared with, and the line: the first compile that differs so from it.
    likes: dict[tuple[str, tuple[str, ...]], Compile] = {}
    for at in reversed(range(len(compiles))):
        each, line = compiles[at], compiles[at].frames[:1]
        like = likes.get((each.program, line))
        if each.cause.kind == "graph" and each.program and like is not None:
            told = like.cause.detail.removesuffix(f" ({NOT_THE_LAST})")
            detail = f"{told}, in a later compile: this is the first such graph"
            found[at] = replace(each, cause=replace(like.cause, detail=detail))
        if each.cause.kind in _OF_MANY:
            likes[compared[at], line] = each
    return found


def without_last_batch(compiles: list[Compile]) -> list[Compile]:
    """The compiles, where shapes change in several steps without the word on an epoch's last batch: it comes once."""
    if len({each.step for each in compiles if each.cause.kind == "shape"}) <= 1:
        return compiles
    return [
        replace(each, cause=replace(each.cause, detail=each.cause.detail.replace(LAST_BATCH, "")))
        for each in compiles
    ]


def earlier_programs(compiled: Compile, compiles: list[Compile], known: list[str]) -> list[str]:
    """Which of the known programs there were before a compile.

    A program that no compile of the capture made was there before it, whether it ran or not. Programs of other
    functions are not an earlier form of it: JAX names each program after its function. The newest comes first.
    """
    made = {each.program: each.start_ps for each in compiles if each.program}
    found = sorted(
        name
        for name in known
        if made.get(name, -1) < compiled.start_ps
        and name != compiled.program
        and function_of(name) == function_of(compiled.program)
    )
    return sorted(found, key=lambda name: (made.get(name, -1), number_of(name) or 0), reverse=True)


def function_of(program: str) -> str:
    """What a program is a form of: `graph(fingerprint)` without its numbers."""
    found = _BASE.match(program)
    return found.group(1) if found else program


def first_runs(devices: list[DeviceActivity]) -> dict[str, int]:
    """When each program first ran in the trace (ps), by `graph(fingerprint)`."""
    first: dict[str, int] = {}
    rows: dict[int, tuple[list[str], Int64]] = {}
    for device in devices:
        programs, events = device.ops.program, device.op_events
        # Devices of one program share the list of what their ops belong to.
        if id(programs) not in rows:
            rows[id(programs)] = _numbered(programs)
        names, of_op = rows[id(programs)]
        for program, when in (
            *_earliest(names, of_op[events.op], events.start),
            *_earliest(device.programs.names, device.programs.program, device.programs.start),
        ):
            if program and (program not in first or when < first[program]):
                first[program] = when
    return first


def _numbered(texts: list[str]) -> tuple[list[str], Int64]:
    """The distinct texts in the order in which they come, and the number of each."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return list(numbers), np.array([numbers[text] for text in texts], np.int64)


def _earliest(names: list[str], of_event: Int64, start: Int64) -> list[tuple[str, int]]:
    """When each of these programs first began, those of no event left out."""
    never = np.iinfo(np.int64).max
    first = np.full(len(names), never, np.int64)
    np.minimum.at(first, of_event, start)
    return [(name, when) for name, when in zip(names, first.tolist(), strict=True) if when < never]


def _with_programs(compiles: list[Compile], devices: list[DeviceActivity]) -> list[Compile]:
    """Name what each compile made: of programs that had not run before it ended, the first to run next."""
    waiting = sorted((when, program) for program, when in first_runs(devices).items())
    named = []
    for index, each in enumerate(compiles):
        end = each.start_ps + each.duration_ps
        until = compiles[index + 1].start_ps if index + 1 < len(compiles) else None
        fresh = [
            (when, program) for when, program in waiting if when >= end and (until is None or when < until)
        ]
        program = fresh[0][1] if fresh else ""
        waiting = [(when, other) for when, other in waiting if other != program]
        named.append(replace(each, program=program or each.program))
    return named


def _on_all_threads(host: Host, event: str, vocabulary: Vocabulary, steps: Steps) -> list[Compile]:
    rows = by_plane(host.threads, lambda plane: NameSet.of([event]).rows(plane.events.names))
    return [
        each for track in host.threads for each in _on_thread(track, rows[id(track.plane)], vocabulary, steps)
    ]


def _on_thread(track: Track, names: Int64, vocabulary: Vocabulary, steps: Steps) -> list[Compile]:
    rows = np.flatnonzero(np.isin(track.name_row, names)) if len(names) else names
    if not len(rows):
        return []
    hashes = track.plane.stat_text(
        track.stats(vocabulary.compile_hash_stat), vocabulary.compile_hash_stat, len(track)
    )
    return [
        Compile(
            step=_step_at(steps, int(track.start[row])),
            graph_hash=hashes[int(row)],
            program=_program_in(track.plane.events.names[int(track.name_row[row])]),
            start_ps=int(track.start[row]),
            duration_ps=int(track.end[row] - track.start[row]),
        )
        for row in rows
    ]


def _program_in(name: str) -> str:
    """The program that a compile event names in brackets, empty where it names none."""
    found = _IN_BRACKETS.match(name)
    return found.group(1) if found else ""


def _step_at(steps: Steps, time: int) -> int | None:
    row = int(np.searchsorted(steps.start, time, "right")) - 1
    return row if row >= 0 and time < int(steps.end[row]) else None
