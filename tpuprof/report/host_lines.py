"""Sampled stacks of one part of the breakdown, summed by the user's line, and by the function that holds most of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from tpuprof.parts import (
    CHECKPOINT,
    COMPILE,
    DISPATCH,
    GARBAGE,
    HOST_PREFIX,
    INPUT_WAIT,
    TRACING,
    USER_PREFIX,
)
from tpuprof.read_places import ANY_OP
from tpuprof.records import record
from tpuprof.report.labels import source_of
from tpuprof.report.sections import HostStackRow
from tpuprof.report.user_frames import Function, places_of_users, user_functions
from tpuprof.units import counted, listed

# What the training thread does in a part that samples name.
_VERBS = {
    "sleep": "sleeps",
    "io": "reads or writes",
    "lock": "waits for a lock, queue or process",
    "gil": "waits until another thread releases Python's lock (the GIL)",
    "python": "runs code that gives the device no work",
    "wait": "waits in a call",
}
# The same of code at a line that hands programs over as well: `model(x).cpu()` is both.
_BESIDE_CALLS = "runs code beside calls that give the device work"
PYTHON = f"{HOST_PREFIX}python"
# Samples from which what they show of a line counts, where they were counted (samples): a thread that lost its CPU for
# 16 ms was seen once, at a line that takes none. A judgement.
LINE_FROM_SAMPLES = 3
# Share of a part from which one line stands for it; below it, the function that most of the part lies in is named.
LINE_FROM_SHARE = 0.5
# Share of a part that the samples at a line must show for that line to be named beside the part's own time: samples
# come late, so that a few of them may show the line after, and not all of a part is sampled. A judgement.
SEEN_FROM_SHARE = 0.25
# Share of a part that a function must hold to stand for it: what other functions do is then a quarter at most.
FUNCTION_FROM_SHARE = 0.75
# Share of tracing and handing over that a function may hold: with more, it is the training loop, which says little.
LOOP_FROM_SHARE = 0.5
# Share of a line's time that one expression must hold to be shown with it: else the time would be taken for that one's.
CALL_FROM_SHARE = 0.75
# Share of a line's time that a line of a library must hold to be counted beside the one with most: a judgement.
PLACE_FROM_SHARE = 0.1
# What is said of a line whose time holds the user's functions that it calls.
WITH_CALLS = "with what it calls"
# Lines named of a function (lines).
LINES_SHOWN = 3
_TRAINS = (TRACING, DISPATCH, COMPILE)
_INSTALLED = re.compile(r".*/(?:site|dist)-packages/")
_Place = TypeVar("_Place", str, Function)


@record(frozen=True)
class Where:
    """Where a part of the step is spent: `ms` of it per step are exposed at `source` (`file:line`), in `call`.

    The time at a line is that of stacks whose innermost frame of the user's code it is: what it calls in libraries is
    in it, and the user's functions have lines of their own. Where no line stands for the part, `function` is the user's
    function that holds it, `more` its other lines, and `source` the line with most; or `source` is the line that calls
    the code. Then `calls` is true, and `ms` holds the user's functions that are called there as well.
    """

    source: str
    call: str
    ms: float
    function: str = ""
    more: tuple[str, ...] = ()
    calls: bool = False

    @property
    def text(self) -> str:
        """`train.py:7 (time.sleep(1))`, or a function's lines: `train.py:7, 9, 12 and 2 more lines (in jitter)`."""
        if not self.function:
            said = [each for each in (self.call, WITH_CALLS if self.calls else "") if each]
            return self.source + (f" ({', '.join(said)})" if said else "")
        shown = [self.source, *(line.rpartition(":")[2] for line in self.more)]
        return f"{listed(shown, LINES_SHOWN, 'more line')} (in {self.function})"

    @property
    def doing(self) -> str:
        """What is done there, as the end of a sentence whose line is known elsewhere: `: time.sleep(1)`."""
        if self.function:
            return f" in {self.function}"
        return running(self.call) + (f", {WITH_CALLS}" if self.calls else "")


def where_of(stacks: list[HostStackRow], part: str) -> Where | None:
    """Where a part is spent: its line, else the function whose lines share it, else the line that calls all of it.

    Where no other function than the training loop holds so much, one that holds half of the part. None where no line is
    known.
    """
    line, total = top_line(stacks, part)
    half, enough = LINE_FROM_SHARE * total, FUNCTION_FROM_SHARE * total
    if line is None or line.ms >= half:
        return line
    loops = places_that_train(stacks, user_functions, LOOP_FROM_SHARE)
    return (
        function_of(stacks, part, enough, loops)
        or caller_of(stacks, part, enough, places_that_train(stacks, places_of_users, LOOP_FROM_SHARE))
        or function_of(stacks, part, half, loops)
        or line
    )


def line_calling(stacks: list[HostStackRow], function: str) -> str:
    """The line that calls a function in most samples (`file:line`); empty where none shows such a call.

    A call that holds Python's lock is hardly sampled, so that any sample counts, whatever part it is of.
    """
    seen: dict[str, int] = {}
    for row in stacks:
        if row.source and re.search(rf"\b{re.escape(function)}\(", row.user_call):
            seen[row.source] = seen.get(row.source, 0) + row.samples
    return max(seen, key=lambda each: seen[each], default="")


def is_at(row: HostStackRow, where: Where) -> bool:
    """Whether the time of a stack is in that of a place."""
    lines = {where.source, *where.more}
    return _place_of(row) in lines or (where.calls and any(source_of(frame) in lines for frame in row.frames))


def hidden_at(stacks: list[HostStackRow], part: str, where: Where) -> float:
    """What a place takes of a part while the device works (ms per step)."""
    return sum(row.hidden_ms_per_step for row in stacks if row.part == part and is_at(row, where))


def hidden_of(stacks: list[HostStackRow], parts: Container[str], idle_beside: float) -> float:
    """Time of parts behind device work (ms per step), as far as the device idles for something else (`idle_beside`)."""
    hidden = sum(row.hidden_ms_per_step for row in stacks if row.part in parts)
    return max(min(hidden, idle_beside), 0.0)


def beside(stacks: list[HostStackRow], part: str, first: Where) -> Where | None:
    """Where a part is spent elsewhere than at a place; None where no line of its own is known.

    A function that both call has time in both: the line that calls it elsewhere is then named.
    """
    rest = [row for row in stacks if not is_at(row, first)]
    found = where_of(rest, part)
    here = [row for row in stacks if is_at(row, first)]
    if found is None or not any(row.part == part and is_at(row, found) for row in here):
        return found
    enough = LINE_FROM_SHARE * top_line(rest, part)[1]
    taken = {place for row in here for place in places_of_users(row.frames)}
    return caller_of(rest, part, enough, taken | places_that_train(stacks, places_of_users, LOOP_FROM_SHARE))


def in_all(row: HostStackRow) -> HostStackRow:
    """A row as if the device idled for all of its time."""
    return replace(row, exposed_ms_per_step=row.exposed_ms_per_step + row.hidden_ms_per_step)


def lines_told(stacks: list[HostStackRow], part: str) -> list[Where]:
    """The lines of a part, most exposed first, each once: one that stands for it with what it calls has that time."""
    where, lines = where_of(stacks, part), by_line(stacks, part)
    if where is None or not where.calls or where.more:
        return lines
    return [where, *(each for each in lines if each.source != where.source)]


def at_line(call: str, source: str) -> str:
    """What is run where: `time.sleep(1) at train.py:7`."""
    return " at ".join(each for each in (_run(call), source) if each) or "source unknown"


def library_place(stacks: list[HostStackRow], part: str, source: str) -> str:
    """Where below a line of the program most of its time of a part is, if a library has that place: path and line.

    Other lines of libraries that hold much of that time are counted: `torch/optim/lbfgs.py:401 and 2 other lines`.
    Frames that any op of a framework goes through do not count. The path is the one in the folder of installed
    packages. Empty where the line of the program is the place, or nothing was seen.
    """
    places: dict[str, float] = {}
    for row in stacks:
        if row.part == part and row.source == source:
            frames = [frame for frame in row.frames if not ANY_OP.search(frame)]
            place = source_of(frames[-1]) if frames else source
            places[place] = places.get(place, 0.0) + row.exposed_ms_per_step + row.hidden_ms_per_step
    most = max(places, key=lambda place: places[place], default=source)
    return "" if most == source else _with_others(most, {**places, source: 0.0})


def noted_place(inside: dict[str, int]) -> str:
    """The same of reads whose lines in libraries the capture noted, by how many are at each; empty where none is."""
    most = max(inside, key=lambda place: inside[place], default="")
    return _with_others(most, inside) if most else ""


def _with_others(most: str, places: Mapping[str, float]) -> str:
    """A place in a library, and how many others have much of the same."""
    enough = PLACE_FROM_SHARE * sum(places.values())
    others = sum(each >= enough for place, each in places.items() if place != most and each)
    found = _INSTALLED.match(most)
    named = most[found.end() :] if found else "/".join(most.split("/")[-2:])
    return named + (f" and {counted(others, 'other line')}" if others else "")


def running(call: str) -> str:
    """What is run, as the end of a sentence whose line is known elsewhere: `: time.sleep(1)`; empty where unknown."""
    return f": {_run(call)}" if call else ""


def _run(call: str) -> str:
    """A sampled expression; of the target of an assignment, what takes time there: the end of what it held before."""
    return f"freeing what {call} held" if call.isidentifier() else call


def top_line(stacks: list[HostStackRow], part: str) -> tuple[Where | None, float]:
    """The line with most exposed time of a part, None where it is unknown, and the exposed time of all lines."""
    lines = by_line(stacks, part)
    total = sum(each.ms for each in lines)
    return (lines[0] if lines and lines[0].source and lines[0].ms else None), total


def by_line(stacks: list[HostStackRow], part: str) -> list[Where]:
    """The lines of a part with all their exposed time, most first; each with the call that takes nearly all of it."""
    return [Where(source, call, exposed) for source, call, exposed, _ in lines_of(stacks, part)]


def function_of(
    stacks: list[HostStackRow],
    part: str,
    enough: float,
    loops: set[Function],
    functions: Callable[[list[str]], dict[Function, tuple[int, str]]] | None = None,
) -> Where | None:
    """The innermost function of the user's that holds enough of a part (ms); None where only the training loop does.

    `functions` gives those of a stack where other ones than the user's are meant.
    """
    held: dict[Function, dict[str, float]] = {}
    depth: dict[Function, int] = {}
    for row in stacks:
        if row.part == part and row.exposed_ms_per_step:
            for each, (at, line) in (functions or user_functions)(row.frames).items():
                lines = held.setdefault(each, {})
                lines[line] = lines.get(line, 0.0) + row.exposed_ms_per_step
                depth[each] = max(depth.get(each, 0), at)
    found = [
        each
        for each, lines in held.items()
        if depth[each] and each not in loops and sum(lines.values()) >= enough
    ]
    if not found:
        return None
    best = max(found, key=lambda each: depth[each])
    name, path, _ = best
    lines = held[best]
    places = [f"{path}:{line}" for line in sorted(lines, key=lambda line: -lines[line])]
    return Where(places[0], "", sum(lines.values()), name, tuple(places[1:]), calls=True)


def caller_of(stacks: list[HostStackRow], part: str, enough: float, trains: set[str]) -> Where | None:
    """The innermost line of the user's that itself, or what it calls, holds enough of a part (ms); None without one.

    A line of the training loop that calls the step is none: it holds the tracing, too.
    """
    held: dict[str, float] = {}
    depth: dict[str, int] = {}
    for row in stacks:
        if row.part == part and row.exposed_ms_per_step:
            for place, at in places_of_users(row.frames).items():
                held[place] = held.get(place, 0.0) + row.exposed_ms_per_step
                depth[place] = max(depth.get(place, 0), at)
    found = [place for place, ms in held.items() if ms >= enough and place not in trains]
    if not found:
        return None
    best = max(found, key=lambda place: depth[place])
    call = next((call for source, call, *_ in lines_of(stacks, part) if source == best), "")
    return Where(best, call, held[best], calls=True)


def places_that_train(
    stacks: list[HostStackRow], places: Callable[[list[str]], Iterable[_Place]], from_share: float
) -> set[_Place]:
    """The training loop, and what it calls to train: places of a stack (functions or lines) with more than that share.

    The share is of tracing, compiling and handing over; where no sample saw any, of waiting for the device and such.
    """
    trains: dict[_Place, float] = {}
    total = 0.0
    rows = feeding(stacks) or [
        row
        for row in stacks
        if row.part not in _TRAINS and not row.part.startswith((HOST_PREFIX, USER_PREFIX))
    ]
    for row in rows:
        ms = row.exposed_ms_per_step + row.hidden_ms_per_step
        total += ms
        for each in places(row.frames):
            trains[each] = trains.get(each, 0.0) + ms
    return {each for each, ms in trains.items() if ms > from_share * total}


def feeding(stacks: list[HostStackRow]) -> list[HostStackRow]:
    """Rows of tracing, compiling and handing over whose stacks do no more of anything else.

    The time before a sample is shown with the sample's stack: what was handed over at its begin, too.
    """
    other: dict[tuple[str, ...], float] = {}
    for row in stacks:
        if row.part.startswith(HOST_PREFIX) or row.part == INPUT_WAIT:
            key = tuple(row.frames)
            other[key] = other.get(key, 0.0) + row.exposed_ms_per_step + row.hidden_ms_per_step
    return [
        row
        for row in stacks
        if row.part in _TRAINS
        and row.exposed_ms_per_step + row.hidden_ms_per_step >= other.get(tuple(row.frames), 0.0)
    ]


def lines_of(stacks: list[HostStackRow], part: str) -> list[tuple[str, str, float, float]]:
    """(line, what it calls, exposed ms, hidden ms) of a part, by the user's line, most exposed first.

    What it calls is empty where no expression of the line takes nearly all of that time.
    """
    sums: dict[str, tuple[float, float]] = {}
    calls: dict[str, dict[str, float]] = {}
    for row in stacks:
        if row.part == part:
            source = _place_of(row)
            exposed, hidden = sums.get(source, (0.0, 0.0))
            sums[source] = (exposed + row.exposed_ms_per_step, hidden + row.hidden_ms_per_step)
            of_line, call = calls.setdefault(source, {}), row.user_call or row.call
            of_line[call] = of_line.get(call, 0.0) + row.exposed_ms_per_step + row.hidden_ms_per_step
    found = [(source, _most_of(calls[source]), *ms) for source, ms in sums.items()]
    return sorted(found, key=lambda each: -each[2])


def _place_of(row: HostStackRow) -> str:
    """The user's line; of a stack without one, its innermost frame."""
    return row.source or (row.frames[-1] if row.frames else "")


def _most_of(calls: dict[str, float]) -> str:
    """The shortest expression that takes nearly all of a line's time, with what stands within it; empty without one."""
    enough = CALL_FROM_SHARE * sum(calls.values())
    held = {call: sum(ms for each, ms in calls.items() if _stands_in(each, call)) for call in calls}
    return min((call for call in calls if held[call] >= enough), key=len, default="")


def _stands_in(part: str, whole: str) -> bool:
    """Whether an expression is a whole one's part: a name within a longer name is none, nor is an unknown one."""
    if part == whole:
        return True
    return bool(part) and bool(re.search(rf"(?<!\w){re.escape(part)}(?!\w)", whole))


def verb_of(part: str) -> str:
    """What the training thread does in a part `host:KIND` or `user:NAME`, as a verb."""
    if part == GARBAGE:
        return "collects garbage"
    if part == CHECKPOINT:
        return "saves a checkpoint"
    if part.startswith(USER_PREFIX):
        return f"is in the annotation {part.removeprefix(USER_PREFIX)!r}"
    kind = part.removeprefix(HOST_PREFIX)
    return _VERBS.get(kind, f"is in {kind}")


def verb_at(part: str, where: Where | None, stacks: list[HostStackRow]) -> str:
    """The same of a place, of whose code samples tell whether it also gives the device work."""
    return _BESIDE_CALLS if part == PYTHON and where and calls_programs(stacks, where) else verb_of(part)


def calls_programs(stacks: list[HostStackRow], where: Where) -> bool:
    """Whether samples saw a place hand programs over in the very code that it names, and not elsewhere in its line.

    The code of `features(x)` in `step(features(x))` is what the time goes to; the call around it hands over.
    """
    lines = {where.source, *where.more}
    rows = [
        row
        for row in stacks
        if row.part == DISPATCH
        and row.source in lines
        and (not where.call or _stands_in(row.user_call or row.call, where.call))
    ]
    samples = sum(row.samples for row in rows)
    return bool(rows) and (not samples or samples >= LINE_FROM_SAMPLES)


def holder_of(stacks: list[HostStackRow], part: str) -> str:
    """The line of another thread that held Python's lock, where the training thread waited for it in this part."""
    return next((row.holder for row in stacks if row.part == part and row.holder), "")
