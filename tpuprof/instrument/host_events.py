"""Puts on the host timeline what torch_xla does not: data loading, device-to-host reads, checkpoints, scans, GC.

Functions of torch and torch_xla are wrapped while a capture runs, and put back afterwards. A wrapper only
adds an event around the call; what cannot be wrapped is noted and left out.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable
from typing import Any

from tpuprof.instrument.saves import SAVES
from tpuprof.instrument.spans import Span, open_span
from tpuprof.instrument.state import STATE, on_accelerator, pass_on, xlac
from tpuprof.instrument.wrapped_calls import Function, Replaced, around, call_span
from tpuprof.own_events import (
    CHECKPOINT,
    FROM_PROCESSES,
    FROM_THREADS,
    HOST_READ,
    NEXT_BATCH,
    READ_METHODS,
    SCAN_TRACE,
    TAKEN_FROM,
)

_gc_events: Any
try:
    from tpuprof.instrument import _gc_events
except ImportError:  # not built, or for another Python or machine
    _gc_events = None

_FAKE_TENSORS = "torch._subclasses"
# Where scan traces its body: at every call, unless its function is known to be pure.
_SCAN = ("torch_xla.experimental.scan", "value_and_grad_partitioned")
# MpDeviceLoader fills its queue in threads.
_LOADERS = (
    ("torch.utils.data.dataloader", "_BaseDataLoaderIter", "__next__", ""),
    ("torch_xla.distributed.parallel_loader", "PerDeviceLoader", "next", FROM_THREADS),
)
_replaced = Replaced()
_NO_GC_EVENTS = (
    "garbage collections are missing from the timeline: tpuprof was installed without its compiled modules, "
    "and a callback in Python would lose a Ctrl-C that comes during one"
)
_PYTHON_EVENTS = (
    "garbage collections are missing from the timeline: this framework's events are made by Python code, "
    "which would lose a Ctrl-C that comes during one"
)


def install() -> list[str]:
    """Wrap what can be wrapped; returns a note for each thing that could not."""
    notes: list[str] = []
    for loader in _LOADERS:
        _try(notes, functools.partial(_wrap_loader, *loader))
    for module, owner, name in SAVES:
        _try(notes, functools.partial(_wrap_save, module, owner, name))
    _try(notes, functools.partial(_wrap_function, *_SCAN, SCAN_TRACE, "scan"))
    for name in READ_METHODS:
        _try(notes, functools.partial(_wrap_read, name))
    _try(notes, functools.partial(_watch_collections, notes))
    return notes


def remove() -> None:
    """Put everything back."""
    _replaced.put_back()


def _try(notes: list[str], wrap: Callable[[], None]) -> None:
    try:
        wrap()
    except (AttributeError, TypeError) as error:
        pass_on(error)
        notes.append(f"a host event is missing from the timeline: {error}")


def _watch_collections(notes: list[str]) -> None:
    extension = xlac()
    if extension is None:
        return
    if _gc_events is None or getattr(extension.profiler, "in_python", False):
        notes.append(_NO_GC_EVENTS if _gc_events is None else _PYTHON_EVENTS)
        return
    events = _gc_events.GcEvents(extension.profiler.TraceMe)
    gc.callbacks.append(events)

    def stop() -> None:
        if events in gc.callbacks:
            gc.callbacks.remove(events)
        if events.error is not None:
            STATE.notes.append(f"garbage collections are missing from the timeline: {events.error}")

    _replaced.at_end(stop)


def _wrap_loader(module: str, owner: str, name: str, queue: str) -> None:
    """Wrap a method that gives the next batch; `queue` says who fills the queue from which it takes that."""

    def takes(args: tuple[Any, ...], _kwargs: dict[str, Any]) -> Span | None:
        filled_by = queue or (FROM_PROCESSES if args and _has_workers(args[0]) else "")
        facts: dict[str, Any] = {TAKEN_FROM: filled_by} if filled_by else {}
        return open_span(NEXT_BATCH, "input", **facts)

    if module in sys.modules:
        loader = getattr(sys.modules[module], owner)
        _replaced.replace(loader, name, lambda original: around(original, takes), calls_program=True)


def _has_workers(iterator: Any) -> bool:
    """Whether worker processes make the batches of an iterator of torch's DataLoader."""
    try:
        return bool(getattr(iterator, "_num_workers", 0))
    except Exception as error:  # a subclass of the program's may do as it likes
        pass_on(error)
        return False


def _wrap_function(module: str, name: str, event: str, kind: str) -> None:
    if module in sys.modules:
        _replace(sys.modules[module], name, event, kind)


def _wrap_save(module: str, owner: str, name: str) -> None:
    """Wrap a function that saves a checkpoint, where it is imported and this version of its library has it."""
    found = sys.modules.get(module)
    found = getattr(found, owner, None) if owner else found
    if hasattr(found, name):
        _replace(found, name, CHECKPOINT, "checkpoint")


def _replace(owner: Any, name: str, event: str, kind: str) -> None:
    def make(original: Function) -> Function:
        return around(original, lambda _args, _kwargs: open_span(event, kind))

    _replaced.replace(owner, name, make, calls_program=True)


def _wrap_read(name: str) -> None:
    """Wrap a method of Tensor that may read a value back. Other devices' tensors pass straight through."""
    torch = sys.modules.get("torch")
    if torch is None:
        return

    def reads(args: tuple[Any, ...], _kwargs: dict[str, Any]) -> Span | None:
        counts = STATE.armed and args and _holds_device_value(args[0])
        return call_span(HOST_READ, name) if counts else None

    _replaced.replace(torch.Tensor, name, lambda original: around(original, reads))


def _holds_device_value(tensor: Any) -> bool:
    """Whether reading this tensor reads the device: fake tensors of a retracing scan say they are there, too."""
    try:
        # Else a function mode of the program's would see us ask for the device.
        with sys.modules["torch"]._C.DisableTorchFunction():
            device = tensor.device.type
        return on_accelerator(device) and not type(tensor).__module__.startswith(_FAKE_TENSORS)
    except Exception as error:  # an odd tensor: torch says what is wrong with it
        pass_on(error)
        return False
