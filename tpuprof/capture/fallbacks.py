"""Finds the line of code that calls an op which torch_xla runs on the CPU.

torch_xla counts such fallbacks by op and tells no more. Where a step before the capture shows some, one further step is
watched through a function mode, which sees every call of torch's Python API. Captured steps never are, but for those of
a recording by the clock, which does not count where steps follow. Counters that rise in a call are of its line. A
dispatch mode would see each op, but it changes what they compute: torch_xla keeps no writes to views of what an op in
C++ makes below such a mode (`affine_grid` had no gradient).

Ops of the backward pass run on threads of autograd, without the program's frames. Hooks of the nodes that a call made
look at the counters as well: an op in a node computes the gradient of that call's line.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tpuprof.capture.dynamo import compiled_functions
from tpuprof.capture.telemetry import FALLBACK_PREFIX
from tpuprof.instrument.stack_frames import user_and_package_line
from tpuprof.instrument.state import counter, note_failure, xlac

# torch_xla counts reading one value back among the fallbacks; those reads are counted elsewhere.
_VALUE_READ = "aten::_local_scalar_dense"
# The modes that `torch.set_default_device` and `with torch.device(...)` put below all others.
_DEVICE_MODE = "DeviceContext"
# Steps watched at most: an op that is not met by then is called in few steps only.
MAX_WATCHED = 3
# Functions of torch that run the ops of other calls' gradients.
_GRADIENTS = frozenset({"backward", "grad"})
# Further lines kept of an op (lines): a report names a few of them.
MAX_FURTHER = 8


class FallbackFinder:
    """Watches single steps; `sources` has `file:line` by op (`aten::bincount`), `also` further lines that call it.

    `gradients` are the ops among them that compute the gradient of that line. `inside` has the line of a library in
    which that line calls the op, by op: `learner.fit(1)` of a library that trains says little.
    """

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}
        self.inside: dict[str, str] = {}
        self.also: dict[str, list[str]] = {}
        self.gradients: set[str] = set()
        # Ops that were found in a step that was watched to its end: of others more lines may call them.
        self._whole: set[str] = set()
        self._mode: Any = None
        self._thread = 0
        self._watched = 0

    @property
    def watches(self) -> bool:
        """Whether a mode of ours lies on a thread's stack, also an idle one."""
        return self._mode is not None

    @property
    def _looks(self) -> bool:
        """Whether calls are looked at: an idle mode looks at none."""
        mode = self._mode
        return mode is not None and bool(mode.look.wanted)

    def step_ended(self, counters: dict[str, int]) -> None:
        """A step outside the capture ended: stop watching, and watch the next one if ops are still to be found."""
        if self._looks:
            self._whole |= self.sources.keys()
        self._end()
        wanted = {
            name for name in counters if name.startswith(FALLBACK_PREFIX) and name != _VALUE_READ
        } - self._whole
        # A mode takes itself off by taking off the topmost. So ours must not lie on one of the program's.
        if not wanted or self._watched >= MAX_WATCHED or self._mode is not None:
            return
        if any(type(each).__name__ != _DEVICE_MODE for each in _mode_stack()) or compiled_functions():
            return
        self._watched += 1
        try:
            self._mode = _watch(_Look(wanted, self.sources, self.also, self.gradients, self.inside))
            self._thread = threading.get_ident()
            self._mode.__enter__()
        except Exception as error:
            self._mode = None
            note_failure("looking for the lines of fallbacks", error)

    def stop(self) -> None:
        """Watch no longer, in the middle of a step: it does not count as one that was watched.

        A program whose first steps compile for long is recorded by the clock again and again meanwhile.
        """
        self._watched -= self._looks
        self._end()

    def _end(self) -> None:
        """Watch no longer. Under a mode that the program entered since, ours stays, idle, until a later call.

        So it does where another thread calls, as recording by the clock does: each thread has a stack of its own.
        """
        mode = self._mode
        if mode is None:
            return
        mode.look.wanted = set()
        if threading.get_ident() != self._thread:
            return
        stack = _mode_stack()
        if not any(each is mode for each in stack):
            self._mode = None
        elif stack[-1] is mode:
            self._mode = None
            mode.__exit__(None, None, None)


def _mode_stack() -> list[Any]:
    from torch.overrides import _get_current_function_mode_stack

    return list(_get_current_function_mode_stack())


class _Look:
    """Looks at each call of a step for the lines of ops that are wanted. It never ends the program."""

    def __init__(
        self,
        wanted: set[str],
        sources: dict[str, str],
        also: dict[str, list[str]],
        gradients: set[str],
        inside: dict[str, str],
    ) -> None:
        self.wanted = set(wanted)
        self._sources, self._also, self._gradients, self._inside = sources, also, gradients, inside
        self._extension = xlac()

    def before(self) -> tuple[dict[str, int], int]:
        """A call begins: the counters of ops that are wanted, and the number of autograd's next node."""
        return self._safely(lambda: (self._counts(), _nodes_made())) or ({}, 0)

    def after(self, counts: dict[str, int], nodes: int, result: Any, *, backward: bool = False) -> None:
        """A call ended: look which counters rose, and follow the nodes that it made.

        One that runs gradients (`backward`) calls none of the ops: theirs are the lines of what they are gradients of.
        """
        self._safely(lambda: self._ended(counts, nodes, result, backward=backward))

    def _safely(self, look: Callable[[], Any]) -> Any:
        try:
            return look()
        except Exception as error:
            self.wanted = set()
            note_failure("looking for the line of a fallback", error)
            return None

    def _ended(self, counts: dict[str, int], nodes: int, result: Any, *, backward: bool) -> None:
        self._rose(counts, user_and_package_line, further=not backward)
        made = [each.grad_fn for each in _tensors(result) if each.grad_fn is not None]
        made = [each for each in made if each._sequence_nr() >= nodes]
        if made and self.wanted and not _transforms():
            place = user_and_package_line()
            for node in made:
                self._follow(node, place)

    def _follow(self, node: Any, place: tuple[str, str]) -> None:
        counts: dict[str, int] = {}

        def begins(_gradients: Any) -> None:
            self._safely(lambda: counts.update(self._counts()))

        def ended(_inputs: Any, _outputs: Any) -> None:
            self._safely(lambda: self._rose(counts, lambda: place, gradient=True))

        node.register_prehook(begins)
        node.register_hook(ended)

    def _rose(
        self,
        counts: dict[str, int],
        place: Callable[[], tuple[str, str]],
        *,
        gradient: bool = False,
        further: bool = True,
    ) -> None:
        for name, now in self._counts().items() if counts else ():
            if now > counts.get(name, now):
                self._note(name, place(), gradient=gradient, further=further)

    def _note(self, name: str, place: tuple[str, str], *, gradient: bool, further: bool) -> None:
        line, inside = place
        if name not in self._sources:
            self._sources[name] = line
            if inside:
                self._inside[name] = inside
            if gradient:
                self._gradients.add(name)
            return
        more = self._also.setdefault(name, [])
        # The gradient of a call is no call of the op, and the other way round.
        same = further and gradient == (name in self._gradients)
        if line and same and line not in (self._sources[name], *more) and len(more) < MAX_FURTHER:
            more.append(line)

    def _counts(self) -> dict[str, int]:
        if self._extension is None:
            return {}
        return {name: counter(self._extension, name) for name in tuple(self.wanted)}


def _nodes_made() -> int:
    """How many nodes autograd made on this thread."""
    from torch._C import _autograd

    return int(_autograd._get_sequence_nr())


def _tensors(result: Any) -> list[Any]:
    import torch

    each = result if isinstance(result, (list, tuple)) else (result,)
    return [one for one in each if isinstance(one, torch.Tensor)]


def _transforms() -> bool:
    """Whether a transform of `torch.func` runs, which has nodes of its own."""
    import torch

    return torch._C._functorch.peek_interpreter_stack() is not None


def _watch(look: _Look) -> Any:
    from torch.overrides import TorchFunctionMode

    class Watch(TorchFunctionMode):  # type: ignore[misc,unused-ignore]  # torch is not here when types are checked
        """Has each call of torch's Python API looked at; it runs as it would."""

        def __init__(self) -> None:
            super().__init__()
            self.look = look

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if not look.wanted:
                return func(*args, **(kwargs or {}))
            counts, nodes = look.before()
            result = func(*args, **(kwargs or {}))
            look.after(counts, nodes, result, backward=getattr(func, "__name__", "") in _GRADIENTS)
            return result

    return Watch()
