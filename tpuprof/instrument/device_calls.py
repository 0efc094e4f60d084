"""Puts copies to and from the device and waits for it on the host timeline, with the line that makes them.

`Tensor.to` and `Tensor.xla` copy on the training thread before any event of the runtime begins; `wait_device_ops` and
collective waits block it without one. They are wrapped while a capture runs, and put back afterwards.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from tpuprof.instrument.same_arrays import SameArrays
from tpuprof.instrument.spans import Span
from tpuprof.instrument.state import STATE, on_accelerator, pass_on, xlac
from tpuprof.instrument.wrapped_calls import (
    Function,
    Replaced,
    around,
    call_span,
    with_event,
)
from tpuprof.own_events import HOST_READ, UPLOAD

# Functions that block until the device is done: of the extension, and of torch_xla's Python.
_WAITS = ("_xla_wait_device_ops",)
_MODULE_WAITS = (
    ("torch_xla.core.xla_model", "rendezvous"),
    ("torch.accelerator", "synchronize"),
    ("torch.tpu", "synchronize"),
)
_replaced = Replaced()
_copied = SameArrays()


def install() -> list[str]:
    """Wrap what can be wrapped; returns a note for each thing that could not."""
    notes: list[str] = []
    try:
        tensor = getattr(sys.modules.get("torch"), "Tensor", None)
        for name in ("to", "xla"):
            if hasattr(tensor, name):
                _replaced.replace(tensor, name, partial(_copy, name))
        waits = [(xlac(), name, name.removeprefix("_xla_")) for name in _WAITS]
        waits += [(sys.modules.get(module), name, name) for module, name in _MODULE_WAITS]
        for owner, name, call in waits:
            if hasattr(owner, name):
                _replaced.replace(owner, name, partial(with_event, HOST_READ, call))
    except (AttributeError, TypeError) as error:
        pass_on(error)
        notes.append(f"copies to the device are missing from the timeline: {error}")
    return notes


def remove() -> None:
    """Put everything back."""
    _replaced.put_back()
    _copied.forget()


def _copy(name: str, original: Function) -> Function:
    def copies(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Span | None:
        event = _copy_event(args[0], name, args[1:], kwargs) if STATE.armed and args else ""
        if not event:
            return None
        facts = {"again": int(_copied.again(args[0]))} if event == UPLOAD else {}
        return call_span(event, name, **facts)

    return around(original, copies)


def _copy_event(tensor: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """What a call of `Tensor.to` or `Tensor.xla` is: an upload, a read, or (empty) neither. Raises nothing."""
    try:
        here = tensor.device.type
        target = "xla" if name == "xla" else _device_type(kwargs.get("device", args[0] if args else None))
        if type(tensor).__module__.startswith("torch._subclasses"):
            return ""
        if not on_accelerator(here) and on_accelerator(target):
            return UPLOAD
        return HOST_READ if on_accelerator(here) and target == "cpu" else ""
    except Exception as error:  # an odd tensor or argument: torch says what is wrong with it
        pass_on(error)
        return ""


def _device_type(target: Any) -> str:
    if isinstance(target, str):
        return target.partition(":")[0]
    device = getattr(target, "device", target)  # another tensor stands for its device
    return str(getattr(device, "type", ""))
