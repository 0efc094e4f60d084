"""`tpuprof.annotate_modules`: names every module's forward and backward by its path in the model.

Backward is followed with tensor hooks, which add nothing to the autograd graph and so leave the traced
graph as it is: a module's backward begins when the gradient of its output is ready and ends when that of
its input is. One tensor is often the output of several modules (an inner and its outer one) and the input
of the next, so each tensor gets one hook that first ends modules, inner ones first, and then begins others,
outer ones first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tpuprof.instrument.spans import Span, close_span, open_span
from tpuprof.instrument.state import STATE, note_failure, pass_on

if TYPE_CHECKING:
    from torch import nn


# Ends the scope of ops traced in a module's backward, so that device time can be distinguished from its forward's.
BACKWARD = "@backward"
_MARKS = "_tpuprof_marks"


class _Open(threading.local):
    def __init__(self) -> None:
        self.forward: list[tuple[int, Span | None]] = []
        self.backward: list[tuple[str, Span | None]] = []


_open = _Open()


class ModuleAnnotations:
    """What `annotate_modules` returns: `remove()` takes all its hooks off again."""

    def __init__(self, handles: list[Any]) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Take the hooks off the model."""
        for handle in self._handles:
            handle.remove()
        self._handles = []


def annotate_modules(model: nn.Module) -> ModuleAnnotations:
    """Name each module's forward and backward by its path (`layers.0.attention`); the root by its class.

    While nothing captures, a hook only looks at a flag. The graph that is traced, and so its hash, stays
    the same. Modules that scan or torch.compile run without calling them in Python are not seen.
    """
    handles = []
    for path, module in model.named_modules():
        name = path or type(model).__name__
        handles.append(module.register_forward_pre_hook(_before_forward(name)))
        handles.append(module.register_forward_hook(_after_forward(name), always_call=True))
    return ModuleAnnotations(handles)


def _before_forward(name: str) -> Callable[..., None]:
    def hook(module: nn.Module, _inputs: Any) -> None:
        if STATE.armed:
            _open.forward.append((id(module), open_span(name, "module", scope=name)))

    return hook


def _after_forward(name: str) -> Callable[..., None]:
    def hook(module: nn.Module, inputs: Any, outputs: Any) -> None:
        if not _open.forward:
            return
        try:
            _close_forward(id(module))
            if STATE.armed:
                _follow_backward(name, inputs, outputs)
        except Exception as error:
            note_failure(f"annotating {name!r}", error)

    return hook


def _close_forward(key: int) -> None:
    """Close the module's span and those an exception left open inside it."""
    if not any(entry == key for entry, _ in _open.forward):
        return
    while _open.forward:
        entry, span = _open.forward.pop()
        close_span(span)
        if entry == key:
            return


class _TensorMarks:
    """Modules whose backward ends and begins when a tensor's gradient is ready, in the order of their forwards."""

    __slots__ = ("begins", "ends")

    def __init__(self) -> None:
        self.ends: list[str] = []
        self.begins: list[str] = []

    def __call__(self, _gradient: Any) -> None:
        for name in self.ends:
            _end_backward(name)
        for name in reversed(self.begins):
            _begin_backward(name)


def _follow_backward(name: str, inputs: Any, outputs: Any) -> None:
    for tensor in _tensors(inputs):
        _marks_of(tensor).ends.append(name)
    for tensor in _tensors(outputs):
        _marks_of(tensor).begins.append(name)


def _marks_of(tensor: Any) -> _TensorMarks:
    marks = getattr(tensor, _MARKS, None)
    if marks is None:
        marks = _TensorMarks()
        setattr(tensor, _MARKS, marks)
        tensor.register_hook(marks)
    return marks


def _tensors(values: Any) -> list[Any]:
    """Tensors that take part in autograd, from a module's inputs or outputs, nested one level at most."""
    flat = [
        each
        for value in (values if isinstance(values, (tuple, list)) else (values,))
        for each in (value if isinstance(value, (tuple, list)) else (value,))
    ]
    # A leaf outlives the step, and its hooks with it: they would pile up.
    return [each for each in flat if getattr(each, "requires_grad", False) and not each.is_leaf]


def _begin_backward(name: str) -> None:
    if STATE.armed and not any(entry == name for entry, _ in _open.backward):
        if not _open.backward:
            _close_when_backward_ends()
        _open.backward.append((name, open_span(name, "module_backward", scope=name + BACKWARD)))


def _end_backward(name: str) -> None:
    if any(entry == name for entry, _ in _open.backward):
        _close_backward(name)


def _close_backward(name: str | None) -> None:
    while _open.backward:
        entry, span = _open.backward.pop()
        close_span(span)
        if entry == name:
            return


def _close_when_backward_ends() -> None:
    """Modules whose input needs no gradient never see an end; autograd calls this in the same thread at its own."""
    from torch.autograd import Variable

    try:
        Variable._execution_engine.queue_callback(lambda: _close_backward(None))
    except RuntimeError as error:  # not inside a backward pass: a hook called by hand
        pass_on(error)
        _close_backward(None)
