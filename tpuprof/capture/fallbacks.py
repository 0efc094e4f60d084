"""Finds the line of code that calls an op which torch_xla runs on the CPU.

torch_xla counts such fallbacks by op and tells no more. Where a step before the capture shows some, one further
step is watched through a dispatch mode, which sees every op with its Python stack; captured steps never are.

Ops of the backward pass run on threads of autograd, without the program's frames. Autograd numbers its nodes in the
order in which the forward pass made them: the number says of which line an op computes the gradient.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tpuprof.capture.telemetry import FALLBACK_PREFIX
from tpuprof.instrument.stack_frames import source_of, user_frames, user_line
from tpuprof.instrument.stack_text import describe, places_of_thread
from tpuprof.instrument.state import counter, note_failure, xlac

# torch_xla counts reading one value back among the fallbacks; those reads are counted elsewhere.
_VALUE_READ = "aten::_local_scalar_dense"
# Ops that torch_xla expands into `nonzero` below the dispatch mode, where an index is a mask.
_NONZERO = "aten::nonzero"
_INDEXES = frozenset({"index", "index_put", "index_put_", "_index_put_impl_"})
# Steps watched at most: an op that is not met by then is called in few steps only.
MAX_WATCHED = 3


class FallbackFinder:
    """Watches single steps; `sources` has `file:line` by op (`aten::bincount`).

    `gradients` are the ops among them that compute the gradient of that line.
    """

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}
        self.gradients: set[str] = set()
        self._mode: Any = None
        self._thread = 0
        self._watched = 0

    @property
    def watches(self) -> bool:
        """Whether a mode of ours lies on a thread's stack, also an idle one."""
        return self._mode is not None

    def step_ended(self, counters: dict[str, int]) -> None:
        """A step outside the capture ended: stop watching, and watch the next one if ops are still to be found."""
        self.stop()
        wanted = {
            name for name in counters if name.startswith(FALLBACK_PREFIX) and name != _VALUE_READ
        } - self.sources.keys()
        # A mode takes itself off by taking off the topmost. So ours must not lie on one of the program's.
        if not wanted or self._watched >= MAX_WATCHED or self._mode is not None or _mode_stack():
            return
        self._watched += 1
        try:
            self._mode = _watch(_Look(wanted, self.sources, self.gradients))
            self._thread = threading.get_ident()
            self._mode.__enter__()
        except Exception as error:
            self._mode = None
            note_failure("looking for the lines of fallbacks", error)

    def stop(self) -> None:
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
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    return list(_get_current_dispatch_mode_stack())


def _by_mask(args: Any) -> bool:
    """Whether a tensor is indexed by a mask: `x[mask]`, `x[mask] = v`."""
    import torch

    indices = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else ()
    return any(getattr(each, "dtype", None) in (torch.bool, torch.uint8) for each in indices)


class _Nodes:
    """The program's lines by the numbers of the nodes that autograd made for them, on the thread that trains."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self._lines: dict[int, str] = {}
        self._made = _nodes_made()

    def note(self) -> None:
        """Note the line of the op that is called, whose node has just been made."""
        import torch

        grad = torch.is_grad_enabled()
        if torch._C._current_autograd_node() is not None:
            if grad:
                # Another thread numbers the nodes of a gradient's gradient: numbers no longer say whose they are.
                self._lines = {}
            return
        if grad and threading.get_ident() == self.thread and (made := _nodes_made()) > self._made:
            # Of ops in one node the first one counts. An op that needs no gradient makes no node.
            self._made = made
            self._lines[made - 1] = user_line()

    def place(self) -> tuple[str, bool]:
        """`file:line` of the op that is called, and whether it computes the gradient of that line."""
        import torch

        node = torch._C._current_autograd_node()
        # A function of the program's own has its lines in its `backward`.
        own = isinstance(node, torch.autograd.function.BackwardCFunction)
        line = self._lines.get(node._sequence_nr(), "") if node is not None and not own else ""
        if line:
            return line, True
        frames = user_frames()
        if frames:
            return source_of(frames[0]), False
        # A thread of autograd: the one that trains waits in `backward`.
        return describe(places_of_thread(self.thread) or []).get("source", ""), False


def _nodes_made() -> int:
    """How many nodes autograd made on this thread."""
    from torch._C import _autograd

    return int(_autograd._get_sequence_nr())


class _Look:
    """Looks at each op of a step for the user's line of those that are wanted. It never ends the program."""

    def __init__(self, wanted: set[str], sources: dict[str, str], gradients: set[str]) -> None:
        self.wanted = set(wanted)
        self._sources, self._gradients = sources, gradients
        self._nodes = _Nodes()
        self._extension = xlac()

    def before(self, func: Any, args: Any) -> dict[str, int]:
        """Look at the op that is called; the counters of those that are wanted still."""
        return self._safely(self._called, func, args) or {}

    def after(self, counts: dict[str, int]) -> None:
        """Look which counters rose: C++ code called these ops in the call that ended, where no mode sees them."""
        if counts:
            self._safely(self._rose, counts)

    def _safely(self, look: Callable[..., Any], *args: Any) -> Any:
        try:
            return look(*args)
        except Exception as error:
            self.wanted = set()
            note_failure("looking for the line of a fallback", error)
            return None

    def _called(self, func: Any, args: Any) -> dict[str, int]:
        self._nodes.note()
        called = func.__name__.partition(".")[0]
        name = _NONZERO if called in _INDEXES and _by_mask(args) else FALLBACK_PREFIX + called
        if name in self.wanted:
            self._found(name)
        return self._counts()

    def _rose(self, counts: dict[str, int]) -> None:
        for name, now in self._counts().items():
            if now > counts.get(name, now):
                self._found(name)

    def _counts(self) -> dict[str, int]:
        if self._extension is None:
            return {}
        return {name: counter(self._extension, name) for name in tuple(self.wanted)}

    def _found(self, name: str) -> None:
        self.wanted.discard(name)
        self._sources[name], gradient = self._nodes.place()
        if gradient:
            self._gradients.add(name)


def _watch(look: _Look) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):  # type: ignore[misc,unused-ignore]  # torch is not here when types are checked
        """Has each op looked at; every op runs as it would."""

        def __init__(self) -> None:
            super().__init__()
            self.look = look

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            counts = look.before(func, args) if look.wanted else {}
            result = func(*args, **(kwargs or {}))
            look.after(counts)
            return result

    return Watch()
