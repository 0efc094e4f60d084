"""Puts copies to and from the device and waits for it on the host timeline, with the line that makes them.

`Tensor.to` and `Tensor.xla` copy on the training thread before any event of the runtime begins; `wait_device_ops` and
collective waits block it without one. They are wrapped while a capture runs, and put back afterwards.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from tpuprof.instrument.host_events import user_line
from tpuprof.instrument.spans import close_span, open_span
from tpuprof.instrument.state import STATE, on_accelerator, xlac

UPLOAD_EVENT, READ_EVENT = "tpuprof.upload", "tpuprof.host_read"
# Functions that block until the device is done: of the extension, and of torch_xla's Python.
_WAITS = ("_xla_wait_device_ops",)
_MODULE_WAITS = (
    ("torch_xla.core.xla_model", "rendezvous"),
    ("torch.accelerator", "synchronize"),
    ("torch.tpu", "synchronize"),
)
_undo: list[Callable[[], None]] = []


def install() -> list[str]:
    """Wrap what can be wrapped; returns a note for each thing that could not."""
    notes: list[str] = []
    try:
        torch, extension = sys.modules.get("torch"), xlac()
        if torch is not None:
            for name in ("to", "xla"):
                _wrap_copy(torch.Tensor, name)
        for name in _WAITS:
            if extension is not None and hasattr(extension, name):
                _wrap_wait(extension, name, name.removeprefix("_xla_"))
        for module, name in _MODULE_WAITS:
            if hasattr(sys.modules.get(module), name):
                _wrap_wait(sys.modules[module], name, name)
    except (AttributeError, TypeError) as error:
        notes.append(f"copies to the device are missing from the timeline: {error}")
    return notes


def remove() -> None:
    """Put everything back, last first."""
    while _undo:
        _undo.pop()()


def _replace(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    own = vars(owner).get(name)
    original = getattr(owner, name, None)
    if original is None:
        return
    setattr(owner, name, make(original))
    _undo.append(lambda: setattr(owner, name, own) if own is not None else delattr(owner, name))


def _wrap_copy(owner: Any, name: str) -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def wrapped(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            event = _copy_event(tensor, name, args, kwargs) if STATE.armed else ""
            if not event:
                return original(tensor, *args, **kwargs)
            mark = event.partition(".")[2]
            span = open_span(event, mark, call=name, source=user_line())
            try:
                return original(tensor, *args, **kwargs)
            finally:
                close_span(span)

        return wrapped

    _replace(owner, name, make)


def _copy_event(tensor: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """What a call of `Tensor.to` or `Tensor.xla` is: an upload, a read, or (empty) neither. Raises nothing."""
    try:
        here = tensor.device.type
        target = "xla" if name == "xla" else _device_type(kwargs.get("device", args[0] if args else None))
        if type(tensor).__module__.startswith("torch._subclasses"):
            return ""
        if not on_accelerator(here) and on_accelerator(target):
            return UPLOAD_EVENT
        return READ_EVENT if on_accelerator(here) and target == "cpu" else ""
    except Exception:  # an odd tensor or argument: torch says what is wrong with it
        return ""


def _device_type(target: Any) -> str:
    if isinstance(target, str):
        return target.partition(":")[0]
    device = getattr(target, "device", target)  # another tensor stands for its device
    return str(getattr(device, "type", ""))


def _wrap_wait(owner: Any, name: str, call: str) -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if not STATE.armed:
                return original(*args, **kwargs)
            span = open_span(READ_EVENT, "host_read", call=call, source=user_line())
            try:
                return original(*args, **kwargs)
            finally:
                close_span(span)

        return wrapped

    _replace(owner, name, make)
