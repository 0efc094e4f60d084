"""Attempts of a job: what each process that trained left, on one time axis."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tpuprof.goodput.vocabulary import INITIALIZATION, PREPARATION, RESTORE, SAVE, STARTUP
from tpuprof.ledger.rows import LARGEST, UNKNOWN
from tpuprof.units import NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tpuprof.ledger.reader import Ledger

    Numbers = NDArray[np.int64]

# Attempts of one rank may overlap by this, since a process's end is known to the second (ns). More is another process.
_OVERLAP_NS = 2_000_000_000
# Longest event (s): some thirty years.
_LONGEST_S = 1e9
# Spans that the ledger records, by the kind of time that they are. Others are phases that the program marked.
SPAN_KINDS = {"save": SAVE, "restore": RESTORE}


@dataclass(frozen=True)
class Span:
    """Time of one kind, or of a phase that the program marked (`custom`)."""

    kind: str
    start_ns: int
    end_ns: int
    custom: bool = False


@dataclass
class Steps:
    """Steps in order. `compile_ns` and `input_ns` are None where nothing measured them."""

    number: Numbers
    start_ns: Numbers
    end_ns: Numbers
    compile_ns: Numbers | None = None
    input_ns: Numbers | None = None
    parts: dict[str, Numbers] = field(default_factory=dict)


@dataclass
class Attempt:
    """One process of the job, from its start to its last sign of life. `ended` is how, empty for a kill.

    All times are nanoseconds since the epoch, as if the wall clock had not jumped since the process started;
    `wall_end_ns` is the end by the wall clock as it stood then. `numbered` says that the program numbers its steps;
    where steps are only counted, a number says nothing about other attempts. `damaged` says that its ledger is, and
    that no step of it can be read: what the time went to is unknown.
    """

    start_ns: int
    end_ns: int
    steps: Steps
    spans: list[Span] = field(default_factory=list)
    ended: str = ""
    wall_end_ns: int | None = None
    name: str = ""
    notes: list[str] = field(default_factory=list)
    numbered: bool = True
    damaged: bool = False


def no_steps() -> Steps:
    """Steps of a process that made none."""
    empty = np.empty(0, np.int64)
    return Steps(empty, empty, empty)


def attempt_of(ledger: Ledger) -> Attempt:
    """A ledger as an attempt."""
    offset = ledger.life[0][0] - ledger.life[0][1] if ledger.life else 0
    columns = ledger.columns
    begin, last = ledger.started_ns + offset, ledger.last_ns
    start, end = _in_order(columns["start_ns"] + offset, columns["duration_ns"], begin, last + offset)
    steps = Steps(
        columns["step"],
        start,
        end,
        _ns(columns["compile_us"]),
        _ns(columns["input_us"]),
        {name: _ns(column) for name, column in columns.items() if name.endswith("_us")},
    )
    return Attempt(
        begin,
        last + offset,
        steps,
        _spans(ledger, offset),
        ledger.ended,
        ledger.wall_ns(last),
        ledger.name,
        _notes(ledger),
        numbered=bool(ledger.meta.get("numbered", True)),
        damaged=_is_unread(ledger),
    )


def _is_unread(ledger: Ledger) -> bool:
    """Whether a damaged ledger has no step that can be read: that is not to say that there was none."""
    return not ledger.steps and ledger.lost_bytes > 0


def _ns(microseconds: Numbers) -> Numbers:
    """Nanoseconds; what would not fit is the most that does."""
    most = LARGEST // NS_PER_US
    return np.clip(microseconds, -most, most) * NS_PER_US


def _in_order(start: Numbers, length: Numbers, begin: int, until: int) -> tuple[Numbers, Numbers]:
    """Starts and ends within the attempt, in order and without overlap, whatever the rows say."""
    end = np.clip(start + np.maximum(length, 0), begin, until)
    end = np.maximum.accumulate(end)
    before = np.concatenate((np.array([begin], np.int64), end[:-1])) if len(end) else end
    return np.minimum(np.maximum(start, before), end), end


def _spans(ledger: Ledger, offset: int) -> list[Span]:
    found = []
    for event in ledger.events:
        if event["kind"] == "span" and isinstance(event.get("until_ns"), int):
            name = str(event.get("name", ""))
            kind = SPAN_KINDS.get(name, name)
            span = Span(kind, event["at_ns"] + offset, event["until_ns"] + offset, name not in SPAN_KINDS)
            found.append(span)
    start, first = ledger.started_ns + offset, ledger.last_ns + offset
    if ledger.steps:
        first = int(ledger.columns["start_ns"][0]) + offset
    ready = [event["at_ns"] + offset for event in ledger.events if event["kind"] == "runtime_ready"]
    # Before the first step that could be seen, compiles are known by their events alone.
    ends = [
        (event["at_ns"] + offset, _seconds(event)) for event in ledger.events if event["kind"] == "compile"
    ]
    found += [Span(STARTUP, end - int(NS_PER_S * seconds), end) for end, seconds in ends if end <= first]
    if ready:
        found.append(Span(INITIALIZATION, start, min(ready[0], first)))
        if not _is_unread(ledger):
            found.append(Span(PREPARATION, min(ready[0], first), first))
    elif not _is_unread(ledger):
        found.append(Span(PREPARATION if ledger.steps else INITIALIZATION, start, first))
    return found


def _seconds(event: dict[str, Any]) -> float:
    """How long an event took, 0 where it does not say."""
    value = event.get("seconds")
    return float(value) if isinstance(value, (int, float)) and abs(value) <= _LONGEST_S else 0.0


def _notes(ledger: Ledger) -> list[str]:
    notes = []
    if not ledger.steps and not _is_unread(ledger):
        notes.append(f"{ledger.name}: no step was seen; `tpuprof.step` marks steps")
    if ledger.missing_rows:
        notes.append(f"{ledger.name}: {ledger.missing_rows} steps are missing from the ledger")
    if ledger.lost_bytes:
        notes.append(f"{ledger.name}: {ledger.lost_bytes} bytes of the ledger are damaged or were cut off")
    for event in ledger.events:
        if event["kind"] == "clock_jump":
            notes.append(f"{ledger.name}: the wall clock jumped by {_seconds(event):+.1f} s")
        if event["kind"] == "rows_lost":
            notes.append(
                f"{ledger.name}: {event.get('rows')} steps could not be written ({event.get('why')})"
            )
    return notes


def series(ledgers: list[Ledger]) -> dict[str, list[list[Ledger]]]:
    """Ledgers by job, and within a job by process of the job: each list is one rank's attempts in order.

    A rank may come back on another host. Where the rank is unknown, the host stands for it. Processes that never
    made a step while another of the same host did are launchers, and are left out.
    """
    jobs: dict[str, dict[str, list[list[Ledger]]]] = defaultdict(lambda: defaultdict(list))
    for ledger in sorted(ledgers, key=lambda each: each.wall_ns(each.started_ns)):
        rank = ledger.meta.get("rank")
        key = f"{rank:06d}" if isinstance(rank, int) and rank != UNKNOWN else str(ledger.meta.get("host"))
        lanes = jobs[str(ledger.meta.get("job", ""))][key]
        begin = ledger.wall_ns(ledger.started_ns)
        for lane in lanes:
            if lane[-1].wall_ns(lane[-1].last_ns) - _OVERLAP_NS <= begin:
                lane.append(ledger)
                break
        else:
            lanes.append([ledger])
    return {
        job: _trained([lane for key in sorted(ranks) for lane in ranks[key]]) for job, ranks in jobs.items()
    }


def _trained(lanes: list[list[Ledger]]) -> list[list[Ledger]]:
    found = [lane for lane in lanes if any(each.steps for each in lane)]
    return found or lanes[:1]


def unmeasured(column: Numbers) -> bool:
    """Whether a column has no measured value."""
    return bool((column == UNKNOWN).all())
