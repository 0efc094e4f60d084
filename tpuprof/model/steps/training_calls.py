"""Steps of a loop that calls the functions that train, and every few steps others: an evaluation, say.

The period of all calls holds several steps then, or there is none. The functions that train repeat by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy as np

from tpuprof.model.host.recorded import ALL, Recorded
from tpuprof.model.intervals import Bool, Int64, distinct
from tpuprof.model.median import median
from tpuprof.model.steps.phase import Phase
from tpuprof.model.steps.repetition import EXPLAINS_FROM_SHARE, MIN_REPEATS, Repetition, find_repetition
from tpuprof.model.steps.table import COVERS_FROM_SHARE, MEDIUM, Steps, StepSource, whole_steps
from tpuprof.model.timeline import Track
from tpuprof.records import record
from tpuprof.report.between import OTHER_CALLS
from tpuprof.units import counted, listed


class Functions(NamedTuple):
    """Functions by what their programs do: those that train, all that change weights, and all with matrix products.

    `programs` are the programs that train.
    """

    train: frozenset[str] = frozenset()
    change: frozenset[str] = frozenset()
    multiply: frozenset[str] = frozenset()
    programs: frozenset[str] = frozenset()


# What those called do.
Trains = Callable[[Collection[str]], Functions]
# What JAX puts before a function's name in the name of its program.
_WRAPPERS = ("jit_", "pmap_")
# What JAX replaces there: `<lambda>` is `jit__lambda` in JAX 0.7, `jit__lambda_` in older ones.
_NO_LETTER = re.compile(r"[^\w.-]")
# Share of steps that hold a call of a function from which it belongs to the step: a slice of the batch, a random key.
USUAL_FROM_SHARE = 0.5
# Ops that add gradients up and change no weights: what JAX calls `a + b` outside of any jitted function.
_SUMS = frozenset({"add"})
# How many repetitions of all calls there are for each call of a function from which they are parts of its steps
# (ratio): two may be micro-batches. A judgement.
SELDOM_FROM = 3
# Functions of a step that a note names (functions): a sentence stays one that can be read.
NAMED = 3


def no_functions(_called: Collection[str]) -> Functions:
    """Where no program is known."""
    return Functions()


@record(frozen=True)
class Calls:
    """Calls of functions, or runs of their programs, in time order: `label` by function, and `functions` by label.

    `first` and `last` bound the time that was recorded (ps).
    """

    label: Int64
    start: Int64
    end: Int64
    functions: Mapping[int, str]
    first: int
    last: int
    source: StepSource = StepSource.CALLS
    recorded: Recorded = ALL

    @property
    def until(self) -> Int64:
        """When the next one begins (ps); of the last, when recording ends."""
        return np.append(self.start[1:], max(self.last, int(self.end[-1])))


def calls_of(driver: Track, rows: Int64, recorded: Recorded) -> Calls:
    """Calls in the given rows of a host thread."""
    labels = driver.name_row[rows]
    functions = {int(label): function_of(driver, int(label)) for label in distinct(labels)[0]}
    return Calls(
        labels, driver.start[rows], driver.end[rows], functions, *recorded.extent(driver), recorded=recorded
    )


def training_call_steps(calls: Calls, trains: Trains, general: Steps | None) -> Steps | None:
    """A step is one repetition of the calls that train; None where that says little, or as much as `general` does.

    `general` are the repetitions of all calls, None where they are not to be trusted. A run of calls that no usual step
    has is left out, if none of them changes weights: those would be part of a step whose other calls repeat by
    themselves.
    """
    if len(calls.functions) < 2 or len(calls.label) < MIN_REPEATS:
        return None
    labels = distinct(calls.label)[0].tolist()
    once = {label for label in labels if _one_in_each(calls.start[calls.label == label], general)}
    if len(once) == len(labels):
        return None  # known without a look into the programs, which takes long
    known = trains(calls.functions.values())
    change, names = known.change, known.train or _of_summed_batches(calls, known, general)
    products = frozenset() if names else _of_products(calls, known, general)
    names = names or products or _of_eager_updates(calls, known, once)
    wanted = [label for label, name in calls.functions.items() if name in names]
    chosen = np.flatnonzero(np.isin(calls.label, wanted))
    found = find_repetition(calls.label[chosen]) if len(chosen) >= MIN_REPEATS else None
    if found is None or found.share < EXPLAINS_FROM_SHARE:
        return None
    if _one_in_each(calls.start[chosen[found.first]], general):
        return None
    extra = _extra_runs(calls.label, chosen, found)
    if any(calls.functions[int(label)] in change for label in np.unique(calls.label[extra >= 0])):
        if not products:
            return None
        # Between two calls of what computes gradients, each call is of the step: ops that log are the same functions.
        extra = np.full_like(extra, -1)
    return _steps(calls, chosen, found, extra, _named(sorted(names), of_one=bool(known.train)))


def _of_summed_batches(calls: Calls, known: Functions, general: Steps | None) -> frozenset[str]:
    """The functions of steps that add the gradients of several batches up before one function changes the weights.

    Each batch repeats by itself, and the update comes after some of them. Empty where other ops run outside of jitted
    functions: those may change the weights, and what comes after some batches keeps a mean of them.
    """
    if general is None or not known.change or not known.multiply:
        return frozenset()
    counted_by = {name: int((calls.label == label).sum()) for label, name in calls.functions.items()}
    eager = counted_by.keys() - known.change - known.multiply
    seldom = all(2 * counted_by[name] <= len(general) for name in known.change)
    return known.change | known.multiply if seldom and eager and eager <= _SUMS else frozenset()


def _of_products(calls: Calls, known: Functions, general: Steps | None) -> frozenset[str]:
    """The functions with matrix products, where the repetitions of all calls hold none of them, and nothing trains.

    Ops that update one weight after the other repeat by themselves: thirty weights made thirty "steps" of each. What is
    called once or twice, as an evaluation, says nothing. Empty where that is not so.
    """
    if general is None:
        return frozenset()
    counted_by = {name: int((calls.label == label).sum()) for label, name in calls.functions.items()}
    often = {name for name in known.multiply if counted_by.get(name, 0) >= MIN_REPEATS}
    seldom = all(SELDOM_FROM * counted_by[name] <= len(general) for name in often)
    return frozenset(often) if seldom else frozenset()


def _of_eager_updates(calls: Calls, known: Functions, once: set[int]) -> frozenset[str]:
    """The functions of steps in which ops outside of any jitted function change the weights, where none trains.

    What is called once in each repetition of all calls (`once`, labels) is a log or an evaluation every few steps if a
    function with products is called more often there, and it changes no weights itself: an update after some batches
    does. Empty where that is not so.
    """
    often = frozenset(
        name for label, name in calls.functions.items() if label not in once or name in known.change
    )
    more = {name for label, name in calls.functions.items() if label not in once}
    return (
        often if known.change and known.multiply & more and len(often) < len(calls.functions) else frozenset()
    )


def _named(names: list[str], *, of_one: bool) -> str:
    """A step in the words of its functions."""
    if not of_one:
        return f"one round of calls of {listed(names, NAMED, 'other')}"
    one = f"one call of {names[0]}" if len(names) == 1 else f"one round of calls of {', '.join(names)}"
    return f"{one}, whose results replace what it is given"


def hold_training(steps: Steps, calls: Calls, trains: Trains) -> bool:
    """Whether most steps hold a call of a function that trains, as far as programs tell which do."""
    held = {
        name: float(np.mean(_in_each(calls.start[calls.label == label], steps) > 0))
        for label, name in calls.functions.items()
    }
    if all(share >= USUAL_FROM_SHARE for share in held.values()):
        return True  # known without a look into the programs, which takes long
    train = trains(calls.functions.values()).train & held.keys()
    return not train or any(held[name] >= USUAL_FROM_SHARE for name in train)


def _one_in_each(begins: Int64, steps: Steps | None) -> bool:
    """Whether most steps hold one of these times."""
    return steps is not None and median(_in_each(begins, steps)) == 1


def _in_each(begins: Int64, steps: Steps) -> Int64:
    """How many of these times each step holds."""
    return np.searchsorted(begins, steps.end, "left") - np.searchsorted(begins, steps.start, "left")


def _extra_runs(labels: Int64, chosen: Int64, found: Repetition) -> Int64:
    """For each call the repetition whose run of unusual calls it is in, -1 for all others."""
    begins = chosen[found.first]
    step = np.searchsorted(begins, np.arange(len(labels)), "right") - 1
    pairs = np.unique(np.stack([labels, step], axis=1)[step >= 0], axis=0)
    in_steps = np.bincount(pairs[:, 0], minlength=int(labels.max()) + 1)
    usual = in_steps >= USUAL_FROM_SHARE * len(begins)
    unusual = np.flatnonzero(~usual[labels] & (step >= 0))
    runs = np.full(len(labels), -1, np.int64)
    for number in np.unique(step[unusual]).tolist():
        own = unusual[step[unusual] == number]
        # Usual calls in between are the run's own: an evaluation slices its batches too.
        runs[own[0] : own[-1] + 1] = number
    runs[chosen] = -1
    return runs


def _steps(calls: Calls, chosen: Int64, found: Repetition, extra: Int64, one: str) -> Steps | None:
    start, until = calls.start, calls.until
    first, final = chosen[found.first], chosen[found.until - 1]
    follow = np.append(first[1:], len(start))
    begins, ends = start[first], np.append(start, until[-1])[follow]
    ends[-1] = min(int(ends[-1]), _usual_end(calls, follow))
    # Runs in the middle of a step are its own.
    runs = {int(each): np.flatnonzero(extra == each) for each in np.unique(extra[extra >= 0])}
    runs = {each: own for each, own in runs.items() if own[0] > final[each]}
    interrupted = np.isin(np.arange(len(first)), list(runs))
    for number, own in runs.items():
        ends[number] = start[own[0]]
        begins[number + 1 : number + 2] = until[own[-1]]
    whole: Bool = whole_steps(begins, ends, (follow < len(start)) & ~interrupted)
    before = np.cumsum(whole)
    phases = tuple(
        _phase(calls, own, int(before[number])) for number, own in runs.items() if follow[number] < len(start)
    )
    held = np.append(begins[whole], [each.start for each in phases]).astype(np.int64)
    until = np.append(ends[whole], [each.end for each in phases]).astype(np.int64)
    if calls.recorded.holds(held, until, calls.first, calls.last) < COVERS_FROM_SHARE:
        return None
    note = f"no step marker in the trace: a step is {one}; runs of other calls are left out"
    numbers = np.arange(int(whole.sum()))
    return Steps(calls.source, MEDIUM, numbers, begins[whole], ends[whole], note, phases=phases)


def _usual_end(calls: Calls, follow: Int64) -> int:
    """When a last step ends that no other follows, if what is behind its last call takes as long as in the others.

    `follow` is the call behind each step. What the program does after its loop is not in the last step.
    """
    followed = follow[follow < len(calls.start)]
    if not len(followed):
        return int(calls.until[-1])
    behind = np.maximum(calls.start[followed] - calls.end[followed - 1], 0)
    return int(calls.end[-1] + median(behind))


def _phase(calls: Calls, own: Int64, step: int) -> Phase:
    """A run of calls that train nothing, before that step."""
    most = calls.functions[int(np.bincount(calls.label[own]).argmax())]
    evidence = f"{counted(len(own), 'call')} in a row of functions that train nothing, most of {most}"
    return Phase(OTHER_CALLS, int(calls.start[own[0]]), int(calls.until[own[-1]]), len(own), evidence, step)


def function_of(driver: Track, label: int) -> str:
    """`train_step` of `PjitFunction(train_step)`."""
    name = driver.plane.events.names[label]
    return name.partition("(")[2].rstrip(")") or name


def function_of_program(program: str) -> str:
    """`train_step` of `jit_train_step(33)`."""
    name = program.partition("(")[0]
    return next((name.removeprefix(each) for each in _WRAPPERS if name.startswith(each)), name)


def is_jitted(program: str) -> bool:
    """Whether a program is that of a jitted function of JAX, by its name."""
    return program.startswith(_WRAPPERS)


def in_program_name(function: str) -> str:
    """What a function's name is in that of its program: `_lambda` of `<lambda>`, `__call` of `__call__`."""
    return _NO_LETTER.sub("_", function).rstrip("_")
