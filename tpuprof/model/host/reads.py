"""Device-to-host reads inside steps, by the line of code that makes them.

tpuprof's capture puts each Python-level read (`.item()`, `.cpu()`, `print`, ...) on the timeline with its
source line. Other captures show only the runtime's transfers, without one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tpuprof.model.host.array_waits import array_waits, waits_between
from tpuprof.model.host.aten_fallbacks import BETWEEN_PS, fetching_inputs
from tpuprof.model.host.blocking_waits import waits_by_reason
from tpuprof.model.host.driver import is_autograd
from tpuprof.model.host.samples import HostSamples
from tpuprof.model.host.vocabulary import Activity, Vocabulary
from tpuprof.model.intervals import EMPTY, Int64, Spans, covered, intersect, subtract, union
from tpuprof.model.steps import Steps
from tpuprof.model.steps.calls import outermost_calls
from tpuprof.model.timeline import Track
from tpuprof.own_events import BLOCKING_SYNC, GRAPH_CUT, HOST_READ, READ_METHODS, WAITS_ALONE
from tpuprof.read_places import IN_NONE, INSIDE
from tpuprof.records import record

# Python-level reads that tpuprof's capture puts on the timeline: methods of Tensor.
READ_CALLS = frozenset(READ_METHODS)
# Reads that C++ code makes of a value: a tensor that stands for a number in a call (`value=lr`), `torch.equal`.
IMPLICIT = "an implicit read"
# Those that autograd's thread makes: each result of anomaly detection's check, and sizes that the device finds.
IMPLICIT_BACKWARD = "an implicit read in the backward pass"
# Reads that no call of the program asks for.
IMPLICIT_READS = frozenset((IMPLICIT, IMPLICIT_BACKWARD))
# Calls that tpuprof's capture or the model adds: copies to the host, and waits for the device that read nothing.
WAIT_CALLS = WAITS_ALONE | {"to", "__array__", "device_get"} | IMPLICIT_READS
# All of them.
CALLS = READ_CALLS | WAIT_CALLS

# What a line of the program does where its call is a method that Python calls by itself.
_SPOKEN = {
    "__bool__": "{value} as a condition",
    "__int__": "{value} turned into an int",
    "__float__": "{value} turned into a float",
    "__index__": "{value} as an index",
    "__format__": "{value} in a formatted string",
    "__repr__": "{value} that is printed",
    "__array__": "{value} turned into a NumPy array",
}
# What a framework calls a value on the device.
_VALUES = {"jax": "an array"}
# Methods of a tensor, which a program writes with a dot before them.
_METHODS = (READ_CALLS | {"to", "block_until_ready"}) - frozenset(_SPOKEN)

# An event of a Python tracer: `$file:line function`.
_PYTHON_CALL = re.compile(r"\$\S+:\d+ (\w+)$")


@record(frozen=True)
class HostRead:
    """Reads of one kind from one line: `call` is the method, `source` `file:line` (empty where unknown).

    `blocked_ps` is the time the training thread spent in them inside steps, waiting for the device included. Waits for
    compiles are not: without the read the next graph cut would wait for them. `by_step` has it by the step in which the
    read begins; summaries of hosts have the sums of all reads instead. `inside` is how many of them a library makes at
    which of its lines, empty where the program itself reads; None where the capture did not note it.
    """

    call: str
    source: str
    occurrences: int
    blocked_ps: int
    by_step: tuple[int, ...] = ()
    inside: dict[str, int] | None = None


def host_reads(
    driver: Track | None,
    vocabulary: Vocabulary,
    steps: Steps,
    autograd: Sequence[Track] = (),
    implicit: Sequence[HostRead] = (),
    held: Spans = EMPTY,
    unmarked: Sequence[HostRead] = (),
) -> list[HostRead]:
    """Reads of the training thread and of autograd's inside steps, those that block longest first.

    `implicit` are those that no call of the program asks for: known as such, they are not listed as transfers. `held`
    is when only Python's lock or a compile was waited for: it counts for no read. `unmarked` are those that samples
    alone show.
    """
    if driver is None or not len(steps):
        return []
    explicit = _reads_of(driver, vocabulary, steps, held)
    if implicit:
        explicit = [each for each in explicit if each.call in CALLS]
    found = [*explicit, *implicit, *unmarked, *_waits(driver, steps)]
    # A transfer of autograd's thread that is no read of the program fetches the inputs of an op that runs on the CPU.
    marked = (track for track in autograd if HOST_READ in track.plane.events.names)
    found += (
        read for track in marked for read in _reads_of(track, vocabulary, steps) if read.call in READ_CALLS
    )
    return sorted(found, key=lambda each: -each.blocked_ps)


def blocked_by_step(reads: Sequence[HostRead], steps: Steps) -> Int64:
    """What all reads block of each step (ps)."""
    by_read = (np.array(each.by_step, np.int64) for each in reads)
    return sum(by_read, np.zeros(len(steps), np.int64))


def implicit_reads(
    threads: Sequence[Track], vocabulary: Vocabulary, steps: Steps, samples: HostSamples | None
) -> list[HostRead]:
    """Transfers in steps that no call of the program asks for, where no op ran on the CPU; their lines by samples.

    `threads` are the training thread and those of autograd, which anomaly detection has read a value per gradient.
    """
    found = []
    for thread in threads if len(steps) else ():
        groups: dict[tuple[str, str], list[int]] = {}
        for row in fetching_inputs(thread, vocabulary, steps).tolist():
            groups.setdefault(implicit_read(thread, row, samples), []).append(row)
        found += [_read(thread, key, np.array(each, np.int64), steps) for key, each in groups.items()]
    return found


def implicit_read(thread: Track, row: int, samples: HostSamples | None) -> tuple[str, str]:
    """The call and the line of a read that no call of the program asks for."""
    at = int(thread.start[row])
    if is_autograd(thread):
        return IMPLICIT_BACKWARD, _backward_at(samples, at)
    return IMPLICIT, seen_at(samples, at)


def _backward_at(samples: HostSamples | None, at: int) -> str:
    """The line of `.backward()` at which samples, of the training thread, show it wait for autograd at that moment.

    Between two samples nothing shows when it began to wait: the nearest piece of such a wait counts, within two of
    their intervals. Empty where none is so near.
    """
    if samples is None:
        return ""
    first = int(np.searchsorted(samples.end, at - BETWEEN_PS))
    last = int(np.searchsorted(samples.start, at + BETWEEN_PS, "right"))
    near = [
        (max(int(samples.start[row]) - at, at - int(samples.end[row]), 0), stack.source)
        for row in range(first, last)
        if int(samples.stack[row]) >= 0
        and (stack := samples.stacks[int(samples.stack[row])]).waits_for_autograd
    ]
    return min(near, default=(0, ""), key=lambda each: each[0])[1]


def array_reads(
    samples: HostSamples | None, reading: Spans, steps: Steps, driver: Track | None, vocabulary: Vocabulary
) -> list[HostRead]:
    """Waits of JAX for arrays by line, and at least how many there are. `reading` is when the thread reads values."""
    if samples is None or driver is None or not len(steps):
        return []
    chosen = np.flatnonzero(array_waits(samples))
    by_source: dict[str, list[int]] = {}
    for row in chosen.tolist():
        by_source.setdefault(samples.stacks[int(samples.stack[row])].source, []).append(row)
    calls = np.sort(driver.start[outermost_calls(driver, vocabulary)]) if by_source else EMPTY.start
    found = []
    for source, rows in by_source.items():
        spans = union(samples.start[rows], samples.end[rows])
        held = covered(spans, steps.start, steps.end)
        blocked = int(covered(reading, samples.start[rows], samples.end[rows]).sum())
        if held.any() and blocked:
            count = int((held > 0).sum())
            # With fewer calls than steps the trace does not show what hands them over, as of what was compiled ahead.
            count = min(count, waits_between(spans, calls)) if len(calls) >= len(steps) else count
            blocked = min(blocked, int(held.sum()))
            # Of these waits the trace shows how long they are in all.
            by_step = tuple((held * (blocked / held.sum())).astype(np.int64).tolist())
            found.append(HostRead("__array__", source, count, blocked, by_step))
    return found


def seen_at(samples: HostSamples | None, at: int) -> str:
    """The line of the program in which samples show the thread at that moment; empty where none does."""
    row = int(np.searchsorted(samples.start, at, "right")) - 1 if samples is not None else -1
    if samples is None or row < 0 or at >= int(samples.end[row]) or int(samples.stack[row]) < 0:
        return ""
    return samples.stacks[int(samples.stack[row])].source


def _reads_of(driver: Track, vocabulary: Vocabulary, steps: Steps, held: Spans = EMPTY) -> list[HostRead]:
    names = driver.plane.events.names
    wanted = [row for row, name in enumerate(names) if name == HOST_READ]
    if not np.isin(driver.name_row, wanted).any():
        wanted = [
            row for row, name in enumerate(names) if vocabulary.activity(name) == Activity.DEVICE_TO_HOST_SYNC
        ]
    rows = np.flatnonzero(np.isin(driver.name_row, np.array(wanted, np.int64)))
    step = np.searchsorted(steps.start, driver.start[rows], "right") - 1
    rows = rows[(step >= 0) & (driver.start[rows] < steps.end[np.maximum(step, 0)])]
    rows = driver.outermost(rows)  # `print` reads through `item`, and is the one to name
    stats = driver.stats("call", "source", INSIDE)
    calls = driver.plane.stat_text(stats, "call", len(driver))
    sources = driver.plane.stat_text(stats, "source", len(driver))
    noted = driver.plane.stat_text(stats, INSIDE, len(driver))
    groups: dict[tuple[str, str], list[int]] = {}
    for row in rows.tolist():
        label = calls[row] or call_of(names[int(driver.name_row[row])])
        groups.setdefault((label, sources[row]), []).append(row)
    return [
        replace(
            _read(driver, (call, source), np.array(members, np.int64), steps, held),
            inside=_inside([noted[row] for row in members], source),
        )
        for (call, source), members in groups.items()
    ]


def _inside(noted: list[str], source: str) -> dict[str, int] | None:
    """How many reads are at which lines of libraries; None where none of them has a note.

    Where the whole program is a package, its own line is no library's.
    """
    counts = Counter(filter(None, noted))
    return (
        {line: count for line, count in counts.items() if line not in (IN_NONE, source)} if counts else None
    )


def call_of(name: str) -> str:
    """What reads, from an event's name: `$array.py:310 __float__` of JAX's Python tracer is `__float__`."""
    found = _PYTHON_CALL.match(name)
    return found.group(1) if found else name


def spoken_read(call: str, framework: str = "") -> str:
    """A read as the program's source has it, for a sentence: `.item()`; the call itself where it is no such method.

    The framework has a word for what is read: a tensor, or an array of JAX.
    """
    said = _SPOKEN.get(call, call).format(value=_VALUES.get(framework, "a tensor"))
    return f".{call}()" if call in _METHODS else said


def _waits(driver: Track, steps: Steps) -> list[HostRead]:
    """Graph cuts in steps that were asked to wait for the device, by the line that makes them.

    A cut also waits where the device is locked by the program before. That is not a wait that the program asks for.
    """
    waits, _ = waits_by_reason(driver)
    cut = driver.named(GRAPH_CUT)
    sources = driver.plane.stat_text(driver.stats("source"), "source", len(driver))
    found: dict[str, list[tuple[int, int]]] = {}
    for start, end in zip(waits.start.tolist(), waits.end.tolist(), strict=True):
        step = int(np.searchsorted(steps.start, start, "right")) - 1
        if step < 0 or start >= steps.end[step]:
            continue
        around = int(np.searchsorted(driver.start[cut], start, "right")) - 1
        source = sources[int(cut[around])] if around >= 0 and driver.end[cut[around]] >= end else ""
        found.setdefault(source, []).append((start, end - start))
    reads = []
    for source, waited in found.items():
        begins, lengths = np.array(waited, np.int64).T
        by_step = _by_step(begins, lengths, steps)
        reads.append(HostRead(BLOCKING_SYNC, source, len(waited), int(lengths.sum()), by_step))
    return reads


def unexplained_reads(driver: Track | None, vocabulary: Vocabulary, steps: Steps) -> int:
    """Time (ps) in steps of transfers from the device that no read of the program explains.

    Ops that torch_xla runs on the CPU fetch their inputs so. Only a capture by tpuprof, which shows the program's
    own reads, can tell them apart: 0 without.
    """
    if driver is None or not len(steps):
        return 0
    names = driver.plane.events.names
    reads = union(*_spans_of(driver, [row for row, name in enumerate(names) if name == HOST_READ]))
    transfers = [
        row for row, name in enumerate(names) if vocabulary.activity(name) == Activity.DEVICE_TO_HOST_SYNC
    ]
    moved = intersect(union(*_spans_of(driver, transfers)), union(steps.start, steps.end))
    return subtract(moved, reads).total


def _spans_of(driver: Track, name_rows: list[int]) -> tuple[Int64, Int64]:
    chosen = np.isin(driver.name_row, np.array(name_rows, np.int64))
    return driver.start[chosen], driver.end[chosen]


def _read(driver: Track, key: tuple[str, str], rows: Int64, steps: Steps, held: Spans = EMPTY) -> HostRead:
    start, end = driver.start[rows], driver.end[rows]
    blocked = subtract(union(start, end), held)
    return HostRead(*key, len(rows), blocked.total, _by_step(start, covered(blocked, start, end), steps))


def _by_step(start: Int64, lengths: Int64, steps: Steps) -> tuple[int, ...]:
    """Times by the step that each of them begins in (ps)."""
    sums = np.zeros(len(steps), np.int64)
    np.add.at(sums, np.searchsorted(steps.start, start, "right") - 1, lengths)
    return tuple(sums.tolist())
