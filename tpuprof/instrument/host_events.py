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

from tpuprof.instrument.spans import close_span, open_span
from tpuprof.instrument.state import STATE, on_accelerator, xlac

_gc_events: Any
try:
    from tpuprof.instrument import _gc_events
except ImportError:  # not built, or for another Python or machine
    _gc_events = None

# Where frames of libraries are distinguished from the user's own, for the source line of a read.
_LIBRARIES = (
    "/torch/",
    "/torch_xla/",
    "/torch_tpu/",
    "/jax/",
    "/jaxlib/",
    "/tpuprof/instrument/",
    "/tpuprof/capture/",
    "/contextlib.py",
    "/typing_extensions.py",  # wraps torch_xla's deprecated functions, `xm.mark_step` among them
)
_FAKE_TENSORS = "torch._subclasses"
_READS = (
    "item",
    "tolist",
    "numpy",
    "cpu",
    "__bool__",
    "__int__",
    "__float__",
    "__index__",
    "__format__",
    "__repr__",
)
# Where scan traces its body: at every call, unless its function is known to be pure.
_SCAN = ("torch_xla.experimental.scan", "value_and_grad_partitioned")
_SAVES = (("torch", "save"), ("torch_xla.core.xla_model", "save"))
_LOADERS = (
    ("torch.utils.data.dataloader", "_BaseDataLoaderIter", "__next__"),
    ("torch_xla.distributed.parallel_loader", "PerDeviceLoader", "next"),
)
_undo: list[Callable[[], None]] = []
_NO_GC_EVENTS = (
    "garbage collections are missing from the timeline: tpuprof was installed without its compiled modules, "
    "and a callback in Python would lose a Ctrl-C that comes during one"
)


def install() -> list[str]:
    """Wrap what can be wrapped; returns a note for each thing that could not."""
    notes: list[str] = []
    for module, owner, name in _LOADERS:
        _try(notes, functools.partial(_wrap_method, module, owner, name, "tpuprof.dataloader.next", "input"))
    for module, name in _SAVES:
        _try(notes, functools.partial(_wrap_function, module, name, "tpuprof.checkpoint", "checkpoint"))
    _try(notes, functools.partial(_wrap_function, *_SCAN, "tpuprof.scan_trace", "scan"))
    for name in _READS:
        _try(notes, functools.partial(_wrap_read, name))
    _try(notes, functools.partial(_watch_collections, notes))
    return notes


def remove() -> None:
    """Put everything back, last first."""
    while _undo:
        _undo.pop()()


def _try(notes: list[str], wrap: Callable[[], None]) -> None:
    try:
        wrap()
    except (AttributeError, TypeError) as error:
        notes.append(f"a host event is missing from the timeline: {error}")


def _watch_collections(notes: list[str]) -> None:
    extension = xlac()
    if extension is None:
        return
    if _gc_events is None:
        notes.append(_NO_GC_EVENTS)
        return
    events = _gc_events.GcEvents(extension.profiler.TraceMe)
    gc.callbacks.append(events)

    def stop() -> None:
        gc.callbacks.remove(events)
        if events.error is not None:
            STATE.notes.append(f"garbage collections are missing from the timeline: {events.error}")

    _undo.append(stop)


def _wrap_method(module: str, owner: str, name: str, event: str, mark: str) -> None:
    if module in sys.modules:
        _replace(getattr(sys.modules[module], owner), name, event, mark)


def _wrap_function(module: str, name: str, event: str, mark: str) -> None:
    if module in sys.modules:
        _replace(sys.modules[module], name, event, mark)


def _replace(owner: Any, name: str, event: str, mark: str) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        span = open_span(event, mark)
        try:
            return original(*args, **kwargs)
        finally:
            close_span(span)

    setattr(owner, name, wrapped)
    _undo.append(lambda: setattr(owner, name, original))


def _wrap_read(name: str) -> None:
    """Wrap a method of Tensor that may read a value back. Other devices' tensors pass straight through."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    owner = torch.Tensor
    own = owner.__dict__.get(name)
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if not STATE.armed or not _holds_device_value(tensor):
            return original(tensor, *args, **kwargs)
        span = open_span("tpuprof.host_read", "host_read", call=name, source=user_line())
        try:
            return original(tensor, *args, **kwargs)
        finally:
            close_span(span)

    setattr(owner, name, wrapped)
    _undo.append(lambda: setattr(owner, name, own) if own is not None else delattr(owner, name))


def _holds_device_value(tensor: Any) -> bool:
    """Whether reading this tensor reads the device: fake tensors of a retracing scan say they are there, too."""
    return on_accelerator(tensor.device.type) and not type(tensor).__module__.startswith(_FAKE_TENSORS)


def user_line() -> str:
    """`file:line` of the innermost frame that is not a library's, empty where there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        generated = path.startswith("<")
        if path != __file__ and not generated and not any(part in path for part in _LIBRARIES):
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]  # the last frame has none
    return ""
