"""The tensors on TorchTPU's device that Python holds, by the names that modules and optimizers have for them.

Runs inside the training script's process.
"""

from __future__ import annotations

import gc
from typing import Any

import torch

from tpuprof.preflight.weights import optimizers

DEVICE = "tpu"


def _on_device(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == DEVICE and value.numel() > 0


def weights() -> list[tuple[str, torch.Tensor]]:
    """Trainable weights on the device with their names: those of modules, of optimizers, and of TorchTPU's trainer."""
    found: dict[int, tuple[str, torch.Tensor]] = {}
    objects = gc.get_objects()
    modules = [each for each in objects if issubclass(type(each), torch.nn.Module)]
    inner = {id(child) for module in modules for child in module.children()}
    for root in (each for each in modules if id(each) not in inner):
        for name, weight in root.named_parameters():
            found.setdefault(id(weight), (name.replace("_orig_mod.", ""), weight))
    held = [weight for each in optimizers() for group in each.param_groups for weight in group["params"]]
    held += [each for each in objects if type(each) is torch.nn.Parameter]
    for weight in held:
        found.setdefault(id(weight), ("a parameter", weight))
    trained = [each for each in found.values() if each[1].requires_grad]
    for trainer in objects:
        if type(trainer).__name__ == "SingleTraceTrainer":
            trained += trainer.params.items()
    return [(name, each) for name, each in trained if _on_device(each)]


def other_tensors() -> list[tuple[str, torch.Tensor]]:
    """Gradients, optimizer state and buffers of modules on the device, with their names."""
    trained = weights()
    names = {id(weight): name for name, weight in trained}
    found = [
        (f"gradient of {name}", weight.grad)
        for name, weight in trained
        if weight.is_leaf and weight.grad is not None
    ]
    for optimizer in optimizers():
        for weight, state in optimizer.state.items():
            found += [
                (f"{key} of {names.get(id(weight), 'a parameter')}", each) for key, each in state.items()
            ]
    for module in [each for each in gc.get_objects() if issubclass(type(each), torch.nn.Module)]:
        found += list(module.named_buffers())
        found += [(name, each) for name, each in module.named_parameters() if not each.requires_grad]
    return [(name, each) for name, each in found if _on_device(each)]
