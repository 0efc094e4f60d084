"""Lets a training script run without data: big weights are never made, values read back are made up.

Runs inside the training script's process, as a dispatch mode beneath torch_xla's functionalization, so that
the traced graph is the one the script would run. Being there also gives every XLA tensor, the hidden bases of
views included, a Python object, by which `intercept` finds all that a step would compute.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from tpuprof.preflight.last_call import LastCall
from tpuprof.preflight.made_up import note, stand_in
from tpuprof.preflight.resize import RESIZES

# Weights from this size on are never made (bytes). Below it a model of any size still fits in host memory:
# biases and norms of a 70-billion-parameter model together stay under 100 MB.
LAZY_BYTES = 1 << 20

_ATEN = torch.ops.aten
_FACTORIES = frozenset(
    {
        _ATEN.empty.memory_format, _ATEN.empty_strided.default, _ATEN.zeros.default, _ATEN.ones.default,
        _ATEN.full.default, _ATEN.rand.default, _ATEN.randn.default, _ATEN.rand.generator, _ATEN.randn.generator,
    }
)  # fmt: skip


@contextlib.contextmanager
def functionalizing() -> Iterator[None]:
    """Let torch_xla wrap the tensors it makes, as it does where no dispatch mode is active."""
    excluded = torch._C._dispatch_tls_local_exclude_set()
    functionalize = torch._C.DispatchKey.Functionalize
    if not excluded.has(functionalize):
        yield
        return
    included = torch._C._dispatch_tls_local_include_set()
    with torch._C._ForceDispatchKeyGuard(included, excluded.remove(functionalize)):
        yield


class DryTensors(TorchDispatchMode):
    """The dispatch mode. `on_read(tensor)` is called before a value would be read from the device."""

    # `while_loop` and its like reach the mode as operators; torch_xla traces them as it does without it.
    supports_higher_order_operators = True

    def __init__(
        self, on_read: Callable[[torch.Tensor], None], lazy: bool, last: LastCall | None = None
    ) -> None:
        super().__init__()
        self._last = last
        self._on_read = on_read
        self.lazy = lazy
        self.unmade_bytes = 0
        self.reads = 0

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Dynamo compiles beneath this mode as it does without it."""
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Answer one operator call, made up where it would need data that is not there."""
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            return func(*args, **kwargs)
        tensors = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, torch.Tensor)]
        if any(each.device.type == "xla" for each in tensors):
            if self._last is not None:
                self._last.note(str(func))
            result = self._with_xla(func, args, kwargs)
            note(func, args, result)
            return result
        if any(each.device.type == "meta" for each in tensors):
            return self._with_meta(func, args, kwargs)
        if self.lazy and func in _FACTORIES and _on_cpu(kwargs.get("device")):
            made = func(*args, **{**kwargs, "device": torch.device("meta")})
            if made.is_floating_point() and made.numel() * made.element_size() >= LAZY_BYTES:
                self.unmade_bytes += made.numel() * made.element_size()
                return made
        with functionalizing():
            return func(*args, **kwargs)

    def _with_xla(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is _ATEN._local_scalar_dense.default:
            self._read(args[0])
            return stand_in(args[0])
        if func is _ATEN.equal.default:
            self._read(args[0])
            return True
        if func is _ATEN._to_copy.default and _on_cpu(kwargs.get("device"), default=False):
            self._read(args[0])
            return torch.empty(args[0].shape, dtype=kwargs.get("dtype") or args[0].dtype).fill_(
                stand_in(args[0])
            )
        if func in (_ATEN.copy_.default, _ATEN._copy_from.default):
            target, source = (args[0], args[1]) if func is _ATEN.copy_.default else (args[1], args[0])
            if target.device.type == "cpu":
                self._read(source)
                return target.fill_(stand_in(source))
            if source.device.type == "meta":
                return target
        return RESIZES.get(func, func)(*args, **kwargs)

    def _with_meta(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is _ATEN._local_scalar_dense.default:
            return stand_in(args[0])
        device = kwargs.get("device")
        if func is _ATEN._to_copy.default and device is not None:
            if torch.device(device).type == "xla":
                return placeholder(args[0].shape, kwargs.get("dtype") or args[0].dtype)
            kwargs = {**kwargs, "device": torch.device("meta")}
        if func is _ATEN.copy_.default and args[0].device.type == "cpu":
            return args[0]
        args, kwargs = _to_meta(args), _to_meta(kwargs)
        return func(*args, **kwargs)

    def _read(self, tensor: torch.Tensor) -> None:
        self.reads += 1
        self._on_read(tensor)


def placeholder(shape: Any, dtype: torch.dtype) -> torch.Tensor:
    """An XLA tensor that is an input of any graph that uses it, without memory behind it."""
    from torch_xla.core.xla_builder import create_placeholder_tensor

    with functionalizing():
        return create_placeholder_tensor(list(shape), dtype)


def _to_meta(tree: Any) -> Any:
    """The same arguments with their CPU tensors of one dimension or more as shapes only."""

    def move(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.device.type == "cpu" and leaf.dim() > 0:
            return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device="meta")
        return leaf

    return torch.utils._pytree.tree_map(move, tree)


def _on_cpu(device: Any, default: bool = True) -> bool:
    return default if device is None else torch.device(device).type == "cpu"
