"""Gradients that are added up over the captured steps and belong to no optimizer, as the process itself holds them.

The first look is before a recording and the second behind it, so no captured step is any longer for it. A look finds
parameters among the objects of Python's garbage collector, once: a hook of all modules would run in each call, and
torch.compile would compile the program again for it. It reads of a gradient whether it is there and how often it was
changed in place (`_version`), and no value: nothing is computed and nothing waits.

A gradient that somebody takes is not found. An optimizer's parameters are left out, whether it stepped yet or not. Who
sets gradients to None begins a new count of changes with each step, and who updates parameters by hand changes those.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tpuprof.instrument.state import STATE, pass_on

# Groups of parameters noted, one a module and shape (groups): models of hundreds of layers have some twenty shapes.
MOST_GROUPS = 200
NO_TORCH = "the program does not train with torch"
NO_OPTIMIZER = (
    "no optimizer of torch.optim stepped in the captured steps, so who uses the gradients is unknown"
)
BY_CLOCK = "gradients were not looked at, since the recording followed no steps; mark them with tpuprof.step"
GONE = "the program let go of its parameters before the recording ended, so their gradients were not looked at again"
FROZEN = "gc.freeze() hides the program's objects, so its parameters were not found"


class _Seen(NamedTuple):
    """A parameter with a gradient at the first look: the gradient's identity, and how often each was changed."""

    parameter: Any
    gradient: int
    gradient_version: int
    version: int


class HeldGradients:
    """Looks before and behind a recording, and counts the calls of optimizers between them."""

    def __init__(self) -> None:
        self._calls: Counter[int] = Counter()
        self._before: Counter[int] = Counter()
        self._seen: list[_Seen] = []
        self._optimizers = 0
        self._first: Callable[[], Any] = lambda: None
        self._why_not = NO_TORCH

    def stepped(self, number: int) -> None:
        """An optimizer made its step; called in whichever thread does."""
        self._calls[number] += 1

    def begins(self, *, by_clock: bool = False) -> None:
        """Look before a recording, in the thread that trains.

        A recording by the clock begins in another thread, where autograd may just give a parameter its gradient.
        """
        self._seen, self._optimizers, self._before = [], 0, Counter(self._calls)
        self._why_not = _why_not(by_clock)
        if self._why_not:
            return
        try:
            with _plain():
                self._find()
        except Exception as error:  # tensors of other libraries raise what they like
            pass_on(error)
            self._why_not = f"looking for gradients failed: {type(error).__name__}"

    def ends(self) -> dict[str, Any]:
        """Look behind it: what run.json says of gradients that no optimizer uses."""
        seen, self._seen = self._seen, []
        if self._why_not:
            return {"unavailable": self._why_not}
        try:
            with _plain():
                grown = [(parameter, grew, each) for each in seen for parameter, grew in _grown(each)]
                rows = _groups(grown) if grown else []
        except Exception as error:
            pass_on(error)
            return {"unavailable": f"looking for gradients failed: {type(error).__name__}"}
        steps = max((count - self._before[number] for number, count in self._calls.items()), default=0)
        if rows and not steps:
            return {"unavailable": NO_OPTIMIZER}
        if not rows and any(each.parameter() is None for each in seen) and self._has_left():
            return {"unavailable": GONE}
        before = max(self._before.values(), default=0)
        return {"optimizers": self._optimizers, "steps": steps, "steps_before": before, "parameters": rows}

    def _find(self) -> None:
        parameters, optimizers = _alive()
        self._optimizers = len(optimizers)
        self._first = weakref.ref(optimizers[0]) if optimizers else lambda: None
        used = {id(each) for optimizer in optimizers for each in _parameters_of(optimizer)}
        for each in parameters:
            if id(each) in used or not each.requires_grad or not each.is_leaf:
                continue
            gradient = each.grad
            if gradient is not None:
                self._seen.append(_Seen(weakref.ref(each), id(gradient), gradient._version, each._version))

    def _has_left(self) -> bool:
        """Whether the program left the function that trains: its optimizer is gone as well, or Python ends."""
        return self._first() is None or not threading.main_thread().is_alive()


def _why_not(by_clock: bool) -> str:
    """Why nothing can be found, empty where it can."""
    jax = STATE.framework is not None and STATE.framework.name == "jax"
    if jax or "torch.optim" not in sys.modules:
        return NO_TORCH
    if by_clock:
        return BY_CLOCK
    return FROZEN if gc.get_freeze_count() else ""


def _plain() -> Any:
    """A block in which classes of tensors made by libraries are not asked: their attributes may compute."""
    return sys.modules["torch"]._C.DisableTorchFunctionSubclass()


def _kinds(*wanted: type) -> Iterator[tuple[int, Any]]:
    """Objects of these classes, by the class's place. Of others only the type is read, so that no proxy wakes up."""
    places: dict[type, int] = {}
    for each in gc.get_objects():
        kind = type(each)
        place = places.get(kind)
        if place is None:
            place = next((row for row, one in enumerate(wanted) if issubclass(kind, one)), -1)
            places[kind] = place
        if place >= 0:
            yield place, each


def _alive() -> tuple[list[Any], list[Any]]:
    """All parameters and all optimizers of the process."""
    torch = sys.modules["torch"]
    found: tuple[list[Any], list[Any]] = [], []
    for place, each in _kinds(torch.nn.Parameter, torch.optim.Optimizer):
        found[place].append(each)
    return found


def _parameters_of(optimizer: Any) -> list[Any]:
    groups = optimizer.__dict__.get("param_groups") or []
    return [each for group in groups for each in group.get("params", ())]


def _grown(seen: _Seen) -> Iterator[tuple[Any, int]]:
    """The parameter and how often its gradient was added to, where nobody took the gradient and changed the parameter.

    A new gradient may lie where the old one lay. It would have to be added to more often than the old one ever was.
    """
    parameter = seen.parameter()
    gradient = parameter.grad if parameter is not None and parameter.requires_grad else None
    if gradient is None or id(gradient) != seen.gradient or parameter._version != seen.version:
        return
    grew = gradient._version - seen.gradient_version
    if grew > 0:
        yield parameter, grew


def _groups(grown: list[tuple[Any, int, _Seen]]) -> list[dict[str, Any]]:
    """One row a module and shape, those of most bytes first."""
    labels = _labels({id(parameter) for parameter, _, _ in grown})
    rows: dict[tuple[str, tuple[int, ...], str], dict[str, Any]] = {}
    for parameter, grew, seen in grown:
        module, shape = labels.get(id(parameter), ""), tuple(parameter.shape)
        dtype = str(parameter.dtype).removeprefix("torch.")
        row = rows.setdefault(
            (module, shape, dtype),
            {"module": module, "shape": list(shape), "dtype": dtype, "count": 0, "bytes": 0}
            | {"grew_least": grew, "grew_most": grew, "changes_before": seen.gradient_version},
        )
        row["count"] += 1
        row["bytes"] += parameter.numel() * parameter.element_size()
        row["grew_least"] = min(row["grew_least"], grew)
        row["grew_most"] = max(row["grew_most"], grew)
        row["changes_before"] = min(row["changes_before"], seen.gradient_version)
    return sorted(rows.values(), key=lambda each: -each["bytes"])[:MOST_GROUPS]


def _labels(wanted: set[int]) -> dict[int, str]:
    """What to call the module that holds each of these parameters: the innermost one that holds all of its model's."""
    module_type = sys.modules["torch"].nn.Module
    modules = [each for _, each in _kinds(module_type)]
    inside = {id(child) for each in modules for child in _children(each).values()}
    found: dict[int, str] = {}
    for root in modules:
        if id(root) in inside:
            continue
        paths = {number: path for number, path in _paths(root, (), set()) if number in wanted}
        if paths:
            label = ".".join((_name_of(root), *_common(list(paths.values()))))
            found |= dict.fromkeys(paths, label)
    return found


def _children(module: Any) -> dict[str, Any]:
    held = module.__dict__.get("_modules") or {}
    return {name: each for name, each in held.items() if each is not None}


def _paths(module: Any, path: tuple[str, ...], seen: set[int]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Each parameter of a module with the names that lead to the module that holds it."""
    if id(module) in seen:
        return
    seen.add(id(module))
    for each in (module.__dict__.get("_parameters") or {}).values():
        yield id(each), path
    for name, child in _children(module).items():
        yield from _paths(child, (*path, name), seen)


def _common(paths: list[tuple[str, ...]]) -> tuple[str, ...]:
    first, last = min(paths), max(paths)
    count = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), None)
    return first[: min(len(first), len(last)) if count is None else count]


def _name_of(module: Any) -> str:
    """The variable of the program that has a module; else its class."""
    variables = vars(sys.modules["__main__"]) if "__main__" in sys.modules else {}
    names = [name for name, value in list(variables.items()) if value is module and not name.startswith("_")]
    return names[0] if names else type(module).__name__
