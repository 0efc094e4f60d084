"""Sampled stacks of one part of the breakdown, summed by the user's line, and by the function that holds most of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import accumulate
from typing import TypeVar

from tpuprof.own_events import CELL, NAMELESS
from tpuprof.parts import CHECKPOINT, COMPILE, DISPATCH, GARBAGE, HOST_PREFIX, HOST_SYNC, TRACING, USER_PREFIX
from tpuprof.records import record
from tpuprof.report.sections import HostStackRow

# What the training thread does in a part that samples name.
_VERBS = {
    "sleep": "sleeps",
    "io": "reads or writes",
    "lock": "waits for a lock, queue or process",
    "gil": "waits for Python's lock (the GIL), which another thread holds,",
    "python": "runs code that gives the device no work",
    "wait": "waits in a call",
}
# Share of a part from which one line stands for it; below it, the function that most of the part lies in is named.
LINE_FROM_SHARE = 0.5
# Share of a part that the samples at a line must show for that line to be named beside the part's own time: samples
# come late, so that a few of them may show the line after, and not all of a part is sampled. A judgement.
SEEN_FROM_SHARE = 0.25
# Share of a part that a function must hold to stand for it: what other functions do is then a quarter at most.
FUNCTION_FROM_SHARE = 0.75
# Samples in a function from which it may stand for the forward pass (samples): the error of a share goes with their
# square root, so that of fewer a quarter more or less is chance. A judgement.
FORWARD_FROM_SAMPLES = 4
# Share of tracing and handing over that a function may hold: with more, it is the training loop, which says little.
LOOP_FROM_SHARE = 0.5
# The same where tracing itself is looked at: of it, a function of the model may well hold more than half, and only the
# loop, or the step that it calls, holds the backward pass and the graph cut as well.
TRACING_LOOP_FROM_SHARE = 0.9
# Share of a line's time that one expression must hold to be shown with it: else the time would be taken for that one's.
CALL_FROM_SHARE = 0.75
# Lines named of a function (lines).
LINES_SHOWN = 3
_TRAINS = (TRACING, DISPATCH, COMPILE)
_FRAME = re.compile(r"^(.*) \((.*):(\d+)\)$")
# Code without a file, but for the cells of a notebook.
_GENERATED = f"^(?!{CELL})<"
_NOT_USERS = re.compile(rf"[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\]python3\.\d+[/\\]|{_GENERATED}")
_PACKAGES = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_NOT_LIBRARIES = re.compile(
    r"[/\\](?:torch|torch_xla|functorch|torchax|jax|jaxlib|tpuprof)[/\\]"
    rf"|[/\\]lib[/\\]python3\.\d+[/\\](?!(?:site|dist)-packages)|{_GENERATED}"
)
# Functions of torch and torch_xla that a stack of the backward pass, of an optimizer's step and of a graph cut has.
_BACKWARD = "_engine_run_backward"
_BESIDE_FORWARD = {_BACKWARD, "backward", "_use_grad", "sync", "mark_step"}
# The file in which torch calls each optimizer's `step`.
_OPTIMIZER = "/torch/optim/optimizer.py:"
_FRAMEWORK = re.compile(r"/(?:torch|torch_xla|torch_tpu|jax|jaxlib)/")
_Function = tuple[str, str]
_Place = TypeVar("_Place", str, tuple[str, str])


@record(frozen=True)
class Where:
    """Where a part of the step is spent: `ms` of it per step are exposed at `source` (`file:line`), in `call`.

    Where no line stands for the part, `function` is the user's function that holds it, `more` its other lines, and `ms`
    the time in all of them; `source` is then the line with most. Of a line that calls the code, `ms` holds what it
    calls.
    """

    source: str
    call: str
    ms: float
    function: str = ""
    more: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """`train.py:7 (time.sleep(1))`, or the lines of a function: `jitter: train.py:7, 9, 12 and 2 more lines`."""
        if not self.function:
            return self.source + (f" ({self.call})" if self.call else "")
        shown = [self.source, *(line.rpartition(":")[2] for line in self.more)]
        left = len(shown) - LINES_SHOWN
        more = f" and {left} more line{'s' if left > 1 else ''}" if left > 0 else ""
        return f"{', '.join(shown[:LINES_SHOWN])}{more} (in {self.function})"


def where_of(stacks: list[HostStackRow], part: str) -> Where | None:
    """Where a part is spent: its line, else the function whose lines share it, else the line that calls all of it.

    Where no other function than the training loop holds so much, one that holds half of the part. None where no line is
    known.
    """
    line, total = _top(stacks, part)
    half, enough = LINE_FROM_SHARE * total, FUNCTION_FROM_SHARE * total
    if line is None or line.ms >= half:
        return line
    loops = places_that_train(stacks, _functions, LOOP_FROM_SHARE)
    return (
        _function_of(stacks, part, enough, loops)
        or _caller_of(stacks, part, enough, places_that_train(stacks, places_of_users, LOOP_FROM_SHARE))
        or _function_of(stacks, part, half, loops)
        or line
    )


def is_at(row: HostStackRow, where: Where) -> bool:
    """Whether a stack is at a place: at one of its lines, or in what they call."""
    lines = {where.source, *where.more}
    return _place_of(row) in lines or any(
        frame.rpartition(" (")[2].rstrip(")") in lines for frame in row.frames
    )


def at_line(call: str, source: str) -> str:
    """What is run where: `time.sleep(1) at train.py:7`."""
    return " at ".join(each for each in (_run(call), source) if each) or "source unknown"


def library_place(stacks: list[HostStackRow], part: str, source: str) -> str:
    """Where below a line of the program most of its time of a part is, if a library has that place: folder, file, line.

    Frames of the framework itself do not count. Empty where the line of the program is the place, or nothing was seen.
    """
    places: dict[str, float] = {}
    for row in stacks:
        if row.part == part and row.source == source:
            frames = [frame for frame in row.frames if not _FRAMEWORK.search(frame)]
            place = frames[-1].rpartition(" (")[2].removesuffix(")") if frames else source
            places[place] = places.get(place, 0.0) + row.exposed_ms_per_step + row.hidden_ms_per_step
    most = max(places, key=lambda place: places[place], default=source)
    return "" if most == source else "/".join(most.split("/")[-2:])


def running(call: str) -> str:
    """What is run, as the end of a sentence whose line is known elsewhere: `: time.sleep(1)`; empty where unknown."""
    return f": {_run(call)}" if call else ""


def _run(call: str) -> str:
    """A sampled expression; of the target of an assignment, what takes time there: the end of what it held before."""
    return f"freeing what {call} held" if call.isidentifier() else call


def traced_at(stacks: list[HostStackRow]) -> list[Where]:
    """Where most of the exposed tracing is: its line, the function whose lines share it, or the line that calls it.

    Where only the training loop, or the step that it calls, holds half of it: the few lines that do together. Empty
    where those are too many, or unknown.
    """
    line, total = _top(stacks, TRACING)
    enough = LINE_FROM_SHARE * total
    if line is None:
        return []
    if line.ms >= enough:
        return [line]
    loops = places_that_train(stacks, _functions, TRACING_LOOP_FROM_SHARE)
    trains = places_that_train(stacks, places_of_users, TRACING_LOOP_FROM_SHARE)
    one = _function_of(stacks, TRACING, enough, loops) or _caller_of(stacks, TRACING, enough, trains)
    if one is not None:
        return [one]
    lines = _by_line(stacks, TRACING)[:LINES_SHOWN]
    sums = accumulate(each.ms for each in lines)
    count = next((row for row, ms in enumerate(sums, 1) if ms >= enough), 0)
    return lines[:count] if all(each.source for each in lines[:count]) else []


def forward_at(stacks: list[HostStackRow]) -> Where | None:
    """The function that most of the forward pass's tracing is in: a backward pass traces what it built.

    None where none holds enough, or no sample saw a backward pass.
    """
    traced = _tracing_rows(stacks)
    # A line that reads values builds what it reads (norms to log), and the backward pass repeats none of that.
    reads = {row.source for row in stacks if row.part == HOST_SYNC}
    outside = [row for row in traced if row.source not in reads and not _is_beside_forward(row)]
    backward = [row for row in traced if _BACKWARD in _names(row.frames)]
    if not backward:
        return None
    # What calls `backward()`, too, is the step.
    steps = {each for row in backward for each in _functions(row.frames)}
    loops = places_that_train(stacks, _functions, TRACING_LOOP_FROM_SHARE) | steps
    enough = FUNCTION_FROM_SHARE * sum(row.exposed_ms_per_step for row in outside)
    found = _function_of(outside, TRACING, enough, loops) if enough else None
    return found if found and _seen_often(outside, found, _functions) else None


def library_at(stacks: list[HostStackRow]) -> Where | None:
    """The function of a library that most of the forward pass's tracing is in, where one line of the user's trains.

    `trainer.train()` says nothing: the model, and the step, are the library's. None where no function holds enough.
    """
    traced = traced_at(stacks)
    if len(traced) != 1 or traced[0].source not in places_that_train(
        stacks, places_of_users, TRACING_LOOP_FROM_SHARE
    ):
        return None
    rows = _tracing_rows(stacks)
    outside = [row for row in rows if not _is_beside_forward(row)]
    backward = [row for row in rows if _BACKWARD in _names(row.frames)]
    # What has the backward pass, too, is the step.
    steps = {each for row in backward for each in library_functions(row.frames)}
    loops = places_that_train(stacks, library_functions, TRACING_LOOP_FROM_SHARE) | steps
    enough = FUNCTION_FROM_SHARE * sum(row.exposed_ms_per_step for row in outside)
    found = _function_of(outside, TRACING, enough, loops, library_functions) if enough else None
    if found is None or not _seen_often(outside, found, library_functions):
        return None
    return replace(found, source=in_package(found.source))


def _is_beside_forward(row: HostStackRow) -> bool:
    """Whether a stack is of the backward pass, the graph cut, or an optimizer's update, which may be the user's own."""
    return bool(_BESIDE_FORWARD & _names(row.frames)) or any(_OPTIMIZER in frame for frame in row.frames)


def _tracing_rows(stacks: list[HostStackRow]) -> list[HostStackRow]:
    """Rows of tracing but for stacks that do more of something else: what was traced before it was so elsewhere."""
    return [row for row in _feeding(stacks) if row.part == TRACING]


def _seen_often(
    rows: list[HostStackRow],
    found: Where,
    functions: Callable[[list[str]], dict[_Function, tuple[int, str]]],
) -> bool:
    """Whether samples enough lie in a function for its share of these rows to be no accident."""
    function = (found.function, found.source.rpartition(":")[0])
    return sum(row.samples for row in rows if function in functions(row.frames)) >= FORWARD_FROM_SAMPLES


def in_package(source: str) -> str:
    """A line of an installed package by its path in there: `transformers/models/gpt2/modeling_gpt2.py:420`."""
    return _PACKAGES.split(source)[-1]


def _names(frames: list[str]) -> set[str]:
    """The functions of a stack that are not the user's."""
    found = (_FRAME.match(frame) for frame in frames)
    return {match.group(1) for match in found if match and _NOT_USERS.search(match.group(2))}


def _top(stacks: list[HostStackRow], part: str) -> tuple[Where | None, float]:
    """The line with most exposed time of a part, None where it is unknown, and the exposed time of all lines."""
    lines = _by_line(stacks, part)
    total = sum(each.ms for each in lines)
    return (lines[0] if lines and lines[0].source and lines[0].ms else None), total


def _by_line(stacks: list[HostStackRow], part: str) -> list[Where]:
    """The lines of a part with all their exposed time, most first; each with the call that takes nearly all of it."""
    return [Where(source, call, exposed) for source, call, exposed, _ in lines_of(stacks, part)]


def _function_of(
    stacks: list[HostStackRow],
    part: str,
    enough: float,
    loops: set[_Function],
    functions: Callable[[list[str]], dict[_Function, tuple[int, str]]] | None = None,
) -> Where | None:
    """The innermost function of the user's that holds enough of a part (ms); None where only the training loop does.

    `functions` gives those of a stack where other ones than the user's are meant.
    """
    held: dict[_Function, dict[str, float]] = {}
    depth: dict[_Function, int] = {}
    for row in stacks:
        if row.part == part and row.exposed_ms_per_step:
            for each, (at, line) in (functions or _functions)(row.frames).items():
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
    name, path = best
    lines = held[best]
    places = [f"{path}:{line}" for line in sorted(lines, key=lambda line: -lines[line])]
    return Where(places[0], "", sum(lines.values()), name, tuple(places[1:]))


def _caller_of(stacks: list[HostStackRow], part: str, enough: float, trains: set[str]) -> Where | None:
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
    return Where(best, call, held[best])


def places_that_train(
    stacks: list[HostStackRow], places: Callable[[list[str]], Iterable[_Place]], from_share: float
) -> set[_Place]:
    """The training loop, and what it calls to train: places of a stack (functions or lines) with more than that share.

    The share is of tracing, compiling and handing over; where no sample saw any, of waiting for the device and such.
    """
    trains: dict[_Place, float] = {}
    total = 0.0
    feeding = _feeding(stacks) or [
        row
        for row in stacks
        if row.part not in _TRAINS and not row.part.startswith((HOST_PREFIX, USER_PREFIX))
    ]
    for row in feeding:
        ms = row.exposed_ms_per_step + row.hidden_ms_per_step
        total += ms
        for each in places(row.frames):
            trains[each] = trains.get(each, 0.0) + ms
    return {each for each, ms in trains.items() if ms > from_share * total}


def _feeding(stacks: list[HostStackRow]) -> list[HostStackRow]:
    """Rows of tracing, compiling and handing over whose stacks do no more of anything else.

    The time before a sample is shown with the sample's stack: what was handed over at its begin, too.
    """
    other: dict[tuple[str, ...], float] = {}
    for row in stacks:
        if row.part.startswith(HOST_PREFIX):
            key = tuple(row.frames)
            other[key] = other.get(key, 0.0) + row.exposed_ms_per_step + row.hidden_ms_per_step
    return [
        row
        for row in stacks
        if row.part in _TRAINS
        and row.exposed_ms_per_step + row.hidden_ms_per_step >= other.get(tuple(row.frames), 0.0)
    ]


def library_functions(frames: Iterable[str]) -> dict[_Function, tuple[int, str]]:
    """Functions of a stack that are neither Python's own nor of a framework that traces: libraries' and the user's."""
    return _functions(frames, _NOT_LIBRARIES)


def _functions(
    frames: Iterable[str], left_out: re.Pattern[str] = _NOT_USERS
) -> dict[_Function, tuple[int, str]]:
    """The user's functions of a stack, each with how deep it is among them and its innermost line.

    A comprehension, a generator or a lambda is part of the function that it stands in.
    """
    found: dict[_Function, tuple[int, str]] = {}
    inside: _Function | None = None
    for frame in frames:
        match = _FRAME.match(frame)
        if not match or left_out.search(match.group(2)):
            continue
        name, path, line = match.groups()
        if inside is None or not (name in NAMELESS and path == inside[1]):
            inside = (name, path)
            found[inside] = (len(found), line)
        else:
            found[inside] = (found[inside][0], line)
    return found


def places_of_users(frames: Iterable[str]) -> dict[str, int]:
    """The innermost line (`file:line`) of each of the user's functions of a stack, with how deep that is among them."""
    return {f"{path}:{line}": depth for (_, path), (depth, line) in _functions(frames).items()}


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


def holder_of(stacks: list[HostStackRow], part: str) -> str:
    """The line of another thread that held Python's lock, where the training thread waited for it in this part."""
    return next((row.holder for row in stacks if row.part == part and row.holder), "")
