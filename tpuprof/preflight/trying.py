"""Changes to a torch_xla script that a search tries by itself: autocast, recomputed layers, layers in a loop of XLA's.

Runs inside the script's process. Each is what the user would write, done from outside at the outermost call of a
module.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn

from tpuprof.preflight.trying_names import AUTOCAST, OFFLOAD, REMAT, SCAN, SCAN_REMAT, VARIABLE

# Layers of one kind from which a stack of them is recomputed or looped over.
LAYERS_FROM = 2


def install() -> None:
    """Have the outermost call of each module make the changes that are asked for; nothing where none is."""
    asked = {each for each in os.environ.get(VARIABLE, "").split(",") if each}
    if not asked:
        return
    plain = nn.Module.__call__
    state = threading.local()
    done: set[int] = set()

    def call(self: nn.Module, *args: Any, **options: Any) -> Any:
        if getattr(state, "inside", False) or isinstance(self, nn.modules.loss._Loss):
            return plain(self, *args, **options)
        state.inside = True
        try:
            if id(self) not in done:
                done.add(id(self))
                _recompute(self, asked)
            with ExitStack() as changes:
                if AUTOCAST in asked:
                    changes.enter_context(torch.autocast("xla", dtype=torch.bfloat16))
                if asked & {SCAN, SCAN_REMAT}:
                    changes.enter_context(_Scanned(self, SCAN_REMAT in asked))
                return plain(self, *args, **options)
        finally:
            state.inside = False

    nn.Module.__call__ = call


def stacks(model: nn.Module) -> Iterator[nn.ModuleList | nn.Sequential]:
    """The outermost stacks of layers of one class whose weights have the same shapes."""
    inside: set[int] = set()
    for module in model.modules():
        if id(module) in inside or not isinstance(module, (nn.ModuleList, nn.Sequential)):
            continue
        layers = list(module._modules.values())
        alike = len(layers) >= LAYERS_FROM and len({_kind(each) for each in layers}) == 1
        # Single modules (embeddings, linear layers) are no layers of a model.
        if alike and layers[0] is not None and layers[0]._modules and _kind(layers[0])[1]:
            inside.update(id(each) for each in module.modules())
            yield module


def _kind(layer: nn.Module | None) -> tuple[str, tuple[Any, ...]]:
    if layer is None:
        return "", ()
    return type(layer).__name__, tuple((name, each.shape) for name, each in layer.named_parameters())


def _recompute(model: nn.Module, asked: set[str]) -> None:
    if REMAT in asked:
        from torch_xla.distributed.fsdp import checkpoint_module

        for stack in stacks(model):
            for layer in stack._modules.values():
                checkpoint_module(layer)
    elif OFFLOAD in asked:
        for stack in stacks(model):
            for layer in stack._modules.values():
                if layer is not None:
                    _offload(layer)


def _offload(layer: nn.Module) -> None:
    """Have a layer keep its input in host memory, and compute itself again from it in the backward."""
    plain = layer.forward

    def forward(x: Any, *args: Any, **options: Any) -> Any:
        if not torch.is_grad_enabled() or not isinstance(x, torch.Tensor) or not x.requires_grad:
            return plain(x, *args, **options)
        return _FromHost.apply(lambda value: plain(value, *args, **options), x, *layer.parameters())

    layer.forward = forward


class _FromHost(torch.autograd.Function):
    """A layer whose input waits in host memory for its turn in the backward."""

    @staticmethod
    def forward(ctx: Any, run: Any, x: torch.Tensor, *weights: torch.Tensor) -> Any:
        from torch_xla.experimental.stablehlo_custom_call import place_to_host

        ctx.run, ctx.weights = run, weights
        ctx.save_for_backward(place_to_host(x))
        with torch.no_grad():
            return run(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        import torch_xla.core.xla_model as xm
        from torch_xla.experimental.stablehlo_custom_call import place_to_device

        x, grad = place_to_device(ctx.saved_tensors[0]).detach(), grads[0].clone()
        # Else the compiler would compute all layers again at once.
        xm.optimization_barrier_([x, grad])
        x.requires_grad_()
        with torch.enable_grad():
            y = ctx.run(x)
        found = torch.autograd.grad(y, [x, *ctx.weights], grad, allow_unused=True)
        return None, *found


class _Scanned:
    """Within it, a loop over a stack of layers takes one turn, which runs them all with `scan_layers`."""

    def __init__(self, model: nn.Module, remat: bool) -> None:
        self.stacks = {id(each): each for each in stacks(model)}
        self.remat = remat
        self.kept: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> None:
        for kind in (nn.ModuleList, nn.Sequential):
            plain = kind.__iter__
            self.kept.append((kind, "__iter__", plain))

            def each(stack: Any, plain: Any = plain) -> Iterator[Any]:
                if id(stack) not in self.stacks:
                    return iter(plain(stack))
                return iter([lambda x, *more, **options: self._run(stack, plain, x, more, options)])

            kind.__iter__ = each

    def _run(self, stack: Any, plain: Any, x: Any, more: Any, options: Any) -> Any:
        compiling: Any = importlib.import_module("functorch.compile")
        from torch_xla.experimental.scan_layers import scan_layers

        if more or any(value is not None for value in options.values()) or not isinstance(x, torch.Tensor):
            raise TypeError("scan_layers takes layers of one tensor; these get more than one")
        how = compiling.min_cut_rematerialization_partition if self.remat else compiling.default_partition
        return scan_layers(list(plain(stack)), x, partition_fn=how)

    def __exit__(self, *_: Any) -> None:
        for owner, name, value in self.kept:
            setattr(owner, name, value)
