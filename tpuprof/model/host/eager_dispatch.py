"""What an eager framework dispatches in a step: ops, the programs they become, and what of it the optimizer does.

TorchTPU hands each op over as a program of its own, unless ops are deferred and fused or torch.compile made one of
many. Two profilers in one process each write an op, one inside the other: only outermost ops count.

Lazy frameworks have functions of torch.compile as well, and their calls: `compiled_parts`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from tpuprof.model.host.driver import autograd_threads
from tpuprof.model.host.event_times import COMPILED_REGION
from tpuprof.model.host.vocabulary import Activity, Vocabulary
from tpuprof.model.intervals import EMPTY, Int64, Spans, contains, covered, union
from tpuprof.model.steps import Steps
from tpuprof.model.steps.calls import FUNCTIONS_NAMED, outermost_calls
from tpuprof.model.steps.training_calls import function_of
from tpuprof.model.timeline import Host, Track
from tpuprof.own_events import HOST_READ
from tpuprof.records import record

OP_PREFIX = "aten::"
OPTIMIZER_MARK = "optimizer"
# What a region calls that was compiled; a region without gradients has no such event.
CALL_MARK = "compiled_call"
# The backward pass of what was compiled: autograd calls each part by itself.
BACKWARD_MARK = "compiled_backward"
# Dynamo looks for what it compiled before each part.
LOOKUP_MARK = "compiled_lookup"
# Ops that update many parameters in one call.
_MANY = ("aten::_foreach_", "aten::_fused_")
# Ops that become no program: views, what asks for a property, and `item`, which mostly reads a number on the host.
_FREE = frozenset(
    f"aten::{name}"
    for name in (
        *(
            "view",
            "as_strided",
            "detach",
            "t",
            "transpose",
            "permute",
            "expand",
            "unsqueeze",
            "squeeze",
            "select",
        ),
        *("slice", "reshape", "alias", "lift_fresh", "empty", "empty_like", "empty_strided", "result_type"),
        *("_has_compatible_shallow_copy_type", "set_", "resolve_conj", "is_nonzero", "item"),
    )
)


# Ops that give a tensor other values in place, but for sums.
_RESETS = frozenset(
    f"{OP_PREFIX}{name}_"
    for name in (
        "zero",
        "fill",
        "copy",
        "mul",
        "div",
        "_foreach_zero",
        "_foreach_copy",
        "_foreach_mul",
        "_foreach_div",
    )
)
# Typical steps from which ops and programs are counted in these alone (steps): a program may run in the step after the
# one that called it, so few steps do not tell. A judgement.
TYPICAL_FROM_STEPS = 5


@record(frozen=True)
class EagerDispatch:
    """Means per step. `ops` are outermost ops of the training and autograd threads, `programs` runs of programs: both
    of typical steps, where there are enough of them.

    `optimizer_ps` is the time of the training thread in optimizer calls; of the ops in them, `optimizer_many` update
    many parameters at once. `compiled_regions` are different functions that torch.compile made,
    `regions_called` the fewest and the most of them in steps that call any. Of these,
    `graph_breaks` are called inside of another: dynamo left that one in the middle. `between_ps` is the time of the
    training thread from the first to the last of them in which none of what was compiled runs, `between_backward_ps`
    the same of their backward passes. `calls_beyond` are the
    calls beyond one forward and one backward; they take `parts_ps` at least, each as long as the shortest, with what
    dynamo takes to enter the parts. `calls_ps` is what all but the shortest take. `compiled_calls` are all of them,
    forward and backward, a program each. `repeats` are forward calls of a function that ran before in the same pass,
    without a compiled backward pass in between: micro-batches are none. These seven are of typical steps.
    `optimizer_ps` and `compiled_regions` are None where the framework has no events of such calls; the others then say
    nothing. Where calls are of named functions (JAX), `called` has up to three of them with their calls per step, most
    often called first, of `kinds` in all. `resets` are ops of steps, outside of optimizer calls, that may set or scale
    a gradient in place.
    """

    ops: float
    programs: float
    optimizer_ps: float | None = None
    optimizer_ops: float = 0.0
    optimizer_many: float = 0.0
    compiled_regions: float | None = None
    regions_called: tuple[int, int] = (0, 0)
    between_ps: float = 0.0
    between_backward_ps: float = 0.0
    graph_breaks: float = 0.0
    calls_beyond: float = 0.0
    parts_ps: float = 0.0
    calls_ps: float = 0.0
    compiled_calls: float = 0.0
    repeats: float = 0.0
    called: tuple[tuple[str, float], ...] = ()
    kinds: int = 0
    resets: tuple[str, ...] = ()

    @property
    def most_called(self) -> tuple[str, float]:
        """The function that is called most often, and its calls per step; no name where calls are of none."""
        return self.called[0] if self.called else ("", 0.0)


def eager_dispatch(
    host: Host, driver: Track | None, vocabulary: Vocabulary, steps: Steps, computed: Spans = EMPTY
) -> EagerDispatch | None:
    """What each step dispatches, but for ops `computed` on the host; None for other frameworks, and without a step."""
    if not vocabulary.eager or driver is None or not len(steps):
        return None
    count = len(steps)
    if vocabulary.calls.prefixes:
        return _calls(driver, vocabulary, steps)
    backward = autograd_threads(host)
    ops = {id(track): outermost_ops(track, vocabulary) for track in (driver, *backward)}
    calls = _marked(driver, vocabulary, OPTIMIZER_MARK)
    rows = ops[id(driver)]
    ops[id(driver)] = rows = rows[~contains(computed, driver.start[rows])]
    rows = rows[steps.hold(driver.start[rows])]
    in_calls = contains(calls, driver.start[rows])
    others = {
        driver.plane.events.names[name] for name in np.unique(driver.name_row[rows[~in_calls]]).tolist()
    }
    rows = rows[in_calls]
    names = [driver.plane.events.names[name] for name in driver.name_row[rows].tolist()]
    regions, breaks, between, parts = _regions(driver, vocabulary, steps)
    # A step in which a part compiles spends some hundred times as long there: it would stand for all steps.
    typical = steps.typical
    # The first evaluation, which compiles, called 45 ops in one of eight steps.
    usual = steps.only(np.flatnonzero(typical)) if int(typical.sum()) >= TYPICAL_FROM_STEPS else steps
    between_backward = np.zeros(len(steps), np.int64)
    behind = [_rows_of(track, vocabulary, BACKWARD_MARK) for track in backward]
    calls_made, repeats = _forward_calls(
        driver, vocabulary, steps, [track.start[rows] for track, rows in zip(backward, behind, strict=True)]
    )
    for track, each in zip(backward, behind, strict=True):
        passes, gaps = _backward_calls(track, each, steps)
        parts, between_backward = parts.and_those(passes), between_backward + gaps
        calls_made = calls_made + np.array([len(own) for own in _by_step(track, each, steps)], np.int64)
    return EagerDispatch(
        ops=sum(int(usual.hold(track.start[ops[id(track)]]).sum()) for track in (driver, *backward))
        / len(usual),
        programs=sum(_programs(track, vocabulary, usual) for track in host.threads) / len(usual),
        optimizer_ps=float(covered(calls, steps.start, steps.end).sum()) / count,
        optimizer_ops=len(names) / count,
        optimizer_many=sum(name.startswith(_MANY) for name in names) / count,
        compiled_regions=sum(regions) / count,
        regions_called=(min(filter(None, regions), default=0), max(regions, default=0)),
        graph_breaks=breaks / count,
        between_ps=float(between[typical].mean()),
        between_backward_ps=float(between_backward[typical].mean()),
        calls_beyond=float(parts.beyond[typical].mean()),
        parts_ps=float(parts.least[typical].mean()),
        calls_ps=float(parts.most[typical].mean()),
        compiled_calls=float(calls_made[typical].mean()),
        repeats=float(repeats[typical].mean()),
        resets=tuple(sorted(others & _RESETS)),
    )


@record(frozen=True)
class CompiledParts:
    """Calls of what torch.compile made, means per typical step where programs are traced: forward and backward.

    `parts_ps` is the time from the first call of a pass until the last one ends, without the shortest of them, and
    without waits for a device that works.
    """

    forward: float
    backward: float
    parts_ps: float

    @property
    def most(self) -> float:
        """Calls of the pass that has more of them."""
        return max(self.forward, self.backward)


def compiled_parts(
    host: Host, driver: Track | None, vocabulary: Vocabulary, steps: Steps, waiting: Spans
) -> CompiledParts | None:
    """What each step calls of torch.compile; None for eager frameworks, and where no step calls any.

    `waiting` is when the training thread waits for a device that works: a wait at a break is there without it, too.
    """
    if vocabulary.eager or driver is None or not len(steps):
        return None
    forward, parts = _passes(driver, vocabulary, steps, waiting)
    backward = np.zeros(len(steps), np.int64)
    for track in autograd_threads(host):
        calls, more = _passes(track, vocabulary, steps, EMPTY)
        backward, parts = backward + calls, parts + more
    if not forward.any() and not backward.any():
        return None
    means = [float(each[steps.typical].mean()) for each in (forward, backward, parts)]
    return CompiledParts(*means)


def _passes(track: Track, vocabulary: Vocabulary, steps: Steps, waiting: Spans) -> tuple[Int64, Int64]:
    """By step, how many calls of compiled functions a thread has, and `parts_ps` of them."""
    rows = _by_step(track, _rows_of(track, vocabulary, COMPILED_REGION), steps)
    start = np.array([int(track.start[own[0]]) if len(own) else 0 for own in rows], np.int64)
    end = np.array([int(track.end[own].max()) if len(own) else 0 for own in rows], np.int64)
    shortest = [int((track.end[own] - track.start[own]).min()) if len(own) else 0 for own in rows]
    return np.array([len(own) for own in rows]), end - start - covered(waiting, start, end) - shortest


def _calls(driver: Track, vocabulary: Vocabulary, steps: Steps) -> EagerDispatch:
    """Calls of functions, which the framework names: `PjitFunction(act)`."""
    rows = outermost_calls(driver, vocabulary)
    names = driver.name_row[rows[steps.hold(driver.start[rows])]]
    if not len(names):
        return EagerDispatch(0.0, 0.0)
    counts = Counter(function_of(driver, int(name)) for name in names.tolist())
    called = tuple((name, count / len(steps)) for name, count in counts.most_common(FUNCTIONS_NAMED))
    calls = len(names) / len(steps)
    return EagerDispatch(calls, calls, called=called, kinds=len(counts))


@record(frozen=True)
class _Calls:
    """Calls of compiled functions beyond one, by step: how many, and their time (ps), a column each [steps].

    `least` counts each as long as the step's shortest, `most` all but the shortest.
    """

    beyond: Int64
    least: Int64
    most: Int64

    @classmethod
    def of(cls, lengths: Sequence[Int64]) -> _Calls:
        """From the lengths of each step's calls (ps)."""
        rows = [
            (len(each) - 1, int(each.min()) * (len(each) - 1), int(each.sum() - each.min()))
            if len(each)
            else (0, 0, 0)
            for each in lengths
        ]
        return cls(*np.array(rows, np.int64).T)

    def with_least(self, more: Int64) -> _Calls:
        """With so much more that they take at least, by step (ps)."""
        return _Calls(self.beyond, self.least + more, self.most)

    def and_those(self, more: _Calls) -> _Calls:
        """Both together: forward and backward passes."""
        return _Calls(self.beyond + more.beyond, self.least + more.least, self.most + more.most)


def _regions(driver: Track, vocabulary: Vocabulary, steps: Steps) -> tuple[list[int], int, Int64, _Calls]:
    """Different compiled functions by step, and graph breaks of all steps; by step, the time between the first and the
    last function (ps), and the calls.
    """
    rows = _rows_of(driver, vocabulary, COMPILED_REGION)
    calls = _rows_of(driver, vocabulary, CALL_MARK)
    lookups = _by_step(driver, _rows_of(driver, vocabulary, LOOKUP_MARK), steps)
    breaks, counts = 0, []
    between, entering = np.zeros((2, len(steps)), np.int64)
    lengths = []
    for step, own in enumerate(_by_step(driver, rows, steps)):
        counts.append(len(set(driver.name_row[own].tolist())))
        until = np.maximum.accumulate(driver.end[own])
        breaks += int((driver.start[own][1:] < until[:-1]).sum())
        runs = _compiled(driver, own, calls)
        if len(own):
            between[step] = int(until[-1] - driver.start[own][0]) - runs.total
            entering[step] = _entering(driver, own, calls, lookups[step])
        lengths.append(runs.end - runs.start)
    return counts, breaks, between, _Calls.of(lengths).with_least(entering)


def _entering(driver: Track, regions: Int64, calls: Int64, lookups: Int64) -> int:
    """What dynamo takes at least to enter a step's parts beyond one: each as long as the shortest (ps).

    It looks for what it compiled, and checks what it was compiled for until the part is called.
    """
    looked = driver.end[lookups] - driver.start[lookups]
    begin = driver.start[regions]
    until = np.minimum(driver.end[regions], np.append(begin[1:], np.iinfo(np.int64).max))
    first = np.append(driver.start[calls], np.iinfo(np.int64).max)[
        np.searchsorted(driver.start[calls], begin)
    ]
    checked = (first - begin)[first < until]
    return sum(int(each.min()) * (len(each) - 1) for each in (looked, checked) if len(each))


def _forward_calls(
    driver: Track, vocabulary: Vocabulary, steps: Steps, backward: Sequence[Int64]
) -> tuple[Int64, Int64]:
    """Calls of compiled functions by step, and how many of them repeat one of the same pass.

    `backward` tells when compiled backward passes begin: what is called after one belongs to the next pass.
    """
    begun = np.sort(np.concatenate([*backward, np.empty(0, np.int64)]))
    rows = _by_step(driver, _rows_of(driver, vocabulary, COMPILED_REGION), steps)
    kinds = [
        len(set(zip(driver.name_row[own].tolist(), np.searchsorted(begun, driver.start[own]), strict=True)))
        for own in rows
    ]
    calls = np.array([len(own) for own in rows], np.int64)
    return calls, calls - np.array(kinds, np.int64)


def _backward_calls(track: Track, rows_of_all: Int64, steps: Steps) -> tuple[_Calls, Int64]:
    """An autograd thread's calls of compiled backward passes, and the time between them by step (ps)."""
    rows = _by_step(track, rows_of_all, steps)
    lengths = [track.end[own] - track.start[own] for own in rows]
    between = [
        int(track.end[own].max() - track.start[own][0] - length.sum()) if len(own) else 0
        for own, length in zip(rows, lengths, strict=True)
    ]
    return _Calls.of(lengths), np.array(between, np.int64)


def _by_step(track: Track, rows: Int64, steps: Steps) -> list[Int64]:
    """The rows, in order of their starts, that begin in each step."""
    first, last = (np.searchsorted(track.start[rows], edges) for edges in (steps.start, steps.end))
    return [rows[begin:end] for begin, end in zip(first.tolist(), last.tolist(), strict=True)]


def _compiled(driver: Track, regions: Int64, calls: Int64) -> Spans:
    """When what was compiled runs in these regions, in order of their starts.

    A region that holds another one runs until that begins, or as long as its own compiled call says.
    """
    start, end = driver.start[regions], driver.end[regions]
    inner = np.append(start[1:], np.iinfo(np.int64).max)
    holds = inner < end
    called = calls[contains(union(start, end), driver.start[calls])]
    known = np.searchsorted(driver.start[called], np.minimum(inner, end)) > np.searchsorted(
        driver.start[called], start
    )
    end = np.where(holds, inner, end)
    alone = ~holds | ~known
    return union(
        np.concatenate((start[alone], driver.start[called])), np.concatenate((end[alone], driver.end[called]))
    )


def _rows_of(driver: Track, vocabulary: Vocabulary, named: str) -> Int64:
    wanted = vocabulary.named(named).rows(driver.plane.events.names)
    # Of an event that two profilers wrote, one inside the other, the outer one counts.
    found = [driver.outermost(np.flatnonzero(driver.name_row == name)) for name in wanted]
    return np.sort(np.concatenate(found)) if found else np.empty(0, np.int64)


def outermost_ops(track: Track, vocabulary: Vocabulary) -> Int64:
    """Rows of ops that lie in no other op, nor in what covers all in it (a loader that stacks its batch).

    An op that reads a value is none. What a read calls before it are ops: torch formats a tensor that is printed on the
    device.
    """
    names = track.plane.events.names
    op = np.array([name.startswith(OP_PREFIX) for name in names] + [False], np.bool_)[track.name_row]
    free = np.array([name in _FREE for name in names] + [False], np.bool_)[track.name_row]
    over = np.isin(track.name_row, vocabulary.covers.rows(names))
    over &= ~np.array([name == HOST_READ for name in names] + [False], np.bool_)[track.name_row]
    rows = track.outermost(np.flatnonzero(op | over))
    reading = vocabulary.codes(names) == int(Activity.DEVICE_TO_HOST_SYNC)
    reads = np.flatnonzero(over & np.append(reading, False)[track.name_row])
    # Rows are in order of their starts and do not overlap: the op that a read lies in is the last that began before it.
    holds = np.searchsorted(track.start[rows], track.start[reads], side="right") - 1
    inside = holds[(holds >= 0) & (track.end[rows[holds]] >= track.end[reads])] if len(rows) else holds
    read = np.zeros(len(rows), np.bool_)
    read[inside] = True
    return rows[op[rows] & ~free[rows] & ~read]


def _marked(driver: Track, vocabulary: Vocabulary, named: str) -> Spans:
    rows = _rows_of(driver, vocabulary, named)
    return union(driver.start[rows], driver.end[rows])


def _programs(track: Track, vocabulary: Vocabulary, steps: Steps) -> int:
    rows = np.isin(track.name_row, vocabulary.handed_over.rows(track.plane.events.names))
    return int(steps.hold(track.start[rows]).sum())
