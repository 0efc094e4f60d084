"""The tensors on the XLA device that Python holds, and the names by which the script knows them.

Runs inside the training script's process.
"""

from __future__ import annotations

import gc
import inspect
import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any

import torch
import torch_xla

from tpuprof.preflight.weights import optimizers

# Seconds a thread may keep Python's lock while tensors are listed: no other thread may free one meanwhile.
_LOCK_S = 60.0
# Objects looked at for the names of tensors, and how deep: `trainer.state.batches[0]` is 4.
_LOOKED_AT, _DEPTH = 20_000, 5
_LIBRARY = (
    f"{os.sep}site-packages{os.sep}",
    f"{os.sep}lib{os.sep}python",
    f"{os.sep}tpuprof{os.sep}",
    "<frozen",
)


def on_xla(value: Any) -> bool:
    """Whether a value is a real tensor on the XLA device.

    Fake tensors of a tracer and tensors that wrap others name the device without being on it, and a tensor that
    another thread is only just making or freeing has no device.
    """
    if not issubclass(type(value), torch.Tensor):
        return False
    try:
        with torch._C.DisableTorchFunctionSubclass():
            return bool(value.device.type == "xla" and _real(value))
    except RuntimeError:
        return False


def _real(value: torch.Tensor) -> bool:
    plain = type(value) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    return plain or bool(torch_xla._XLAC._xla_get_tensor_id(value))


def device_tensors(core: Any) -> dict[int, torch.Tensor]:
    """All tensors on the device that Python can see, by XLA tensor id."""
    live: dict[int, torch.Tensor] = {}
    with _undisturbed(), torch._C.DisableTorchFunctionSubclass():
        for each in gc.get_objects():
            if not on_xla(each):
                continue
            # What only native code holds would be freed under our hands when that lets go.
            each._fix_weakref()
            live.setdefault(core._xla_get_tensor_id(each), each)
            if each.is_leaf and each.grad is not None:
                live.setdefault(core._xla_get_tensor_id(each.grad), each.grad)
    return live


def unused_tensors(
    core: Any, live: dict[int, torch.Tensor], used: set[int], names: dict[int, str]
) -> list[torch.Tensor]:
    """Live tensors that a graph neither takes nor makes, one for each buffer: `x.detach()` has the buffer of `x`.

    Of several with one buffer it is one that has a name.
    """
    taken = {_buffer(core, each) for key, each in live.items() if key in used}
    unused = sorted((key for key in live if key not in used), key=lambda key: bool(names.get(key)))
    by_buffer = {_buffer(core, live[key]): live[key] for key in unused}
    return [each for buffer, each in by_buffer.items() if buffer not in taken]


def _buffer(core: Any, tensor: torch.Tensor) -> int:
    """The device buffer of a tensor; the tensor itself where it has none yet."""
    try:
        return int(core._get_tensors_handle([tensor])[0])
    except (RuntimeError, IndexError):
        return -int(core._xla_get_tensor_id(tensor))


@contextmanager
def _undisturbed() -> Iterator[None]:
    """No other thread gets Python's lock meanwhile."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_LOCK_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def script_names(core: Any) -> dict[int, str]:
    """How the script's own variables reach each tensor on the device, by XLA tensor id: `teacher.weight`."""
    waiting = deque((name, value, 0) for name, value in _variables())
    seen: set[int] = set()
    names: dict[int, str] = {}
    while waiting and len(seen) < _LOOKED_AT:
        path, value, depth = waiting.popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if on_xla(value):
            names.setdefault(core._xla_get_tensor_id(value), path)
        elif isinstance(value, torch.nn.Module):
            for name, held in [*value.named_parameters(), *value.named_buffers()]:
                _name(core, names, held, f"{path}.{_clean(name)}")
        elif depth < _DEPTH:
            waiting.extend((f"{path}{step}", inner, depth + 1) for step, inner in _inside(value))
    return names


def _inside(value: Any) -> list[tuple[str, Any]]:
    """What a container or an object of the script holds, with the Python text that reaches it."""
    kind = type(value)
    if kind in (list, tuple) or (kind is deque):
        return [(f"[{index}]", each) for index, each in enumerate(value)]
    if issubclass(kind, dict):
        return [
            (f"[{key!r}]" if isinstance(key, str) else "[...]", each) for key, each in list(value.items())
        ]
    if issubclass(kind, (type, ModuleType)) or kind.__module__ == "builtins":
        return []
    held = getattr(value, "__dict__", None)
    return [(f".{name}", each) for name, each in list(held.items())] if type(held) is dict else []


def _variables() -> list[tuple[str, Any]]:
    """Global variables of the script and local ones of its functions that run now, the innermost first."""
    found: list[tuple[str, Any]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not any(part in frame.f_code.co_filename for part in _LIBRARY):
            found += _locals(frame)
        frame = frame.f_back
    main = sys.modules.get("__main__")
    return [*found, *vars(main).items()] if main is not None else found


def _locals(frame: FrameType) -> list[tuple[str, Any]]:
    """A frame's local variables, without a trace of having looked.

    Up to Python 3.12 a function's frame keeps what it was asked for, so that tensors of this step would live through
    the next one. A dict that the script has from `locals()` stays as it is.
    """
    held = frame.f_locals
    found = list(held.items())
    # Held by the frame, by `held`, and as an argument here.
    if frame.f_code.co_flags & inspect.CO_OPTIMIZED and type(held) is dict and sys.getrefcount(held) <= 3:
        held.clear()
    return found


def tensor_names(core: Any) -> dict[int, str]:
    """Names of the model's weights, buffers, gradients and optimizer state by XLA tensor id."""
    modules = [each for each in gc.get_objects() if issubclass(type(each), torch.nn.Module)]
    inner = {id(child) for module in modules for child in module.children()}
    names: dict[int, str] = {}
    weights: dict[int, str] = {}
    for root in (module for module in modules if id(module) not in inner):
        for name, value in [*root.named_parameters(), *root.named_buffers()]:
            clean = _clean(name)
            weights.setdefault(id(value), clean)
            _name(core, names, value, clean)
            if value.is_leaf and value.grad is not None:
                _name(core, names, value.grad, f"gradient of {clean}")
    for optimizer in optimizers():
        for weight, state in optimizer.state.items():
            for key, value in state.items():
                if isinstance(value, torch.Tensor):
                    _name(core, names, value, f"{key} of {weights.get(id(weight), 'a parameter')}")
    return names


def _clean(name: str) -> str:
    """A weight's name without what FSDP's and torch.compile's wrappers add."""
    return name.replace("_orig_module.", "").replace("_orig_mod.", "")


def _name(core: Any, names: dict[int, str], tensor: torch.Tensor, name: str) -> None:
    if tensor.device.type == "xla":
        names.setdefault(core._xla_get_tensor_id(tensor), name)
