"""Which weights a step updates, which optimizers stepped, and what else lives on the device.

Runs inside the training script's process.
"""

from __future__ import annotations

import gc
import math
import re
from collections.abc import Iterable
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

# What torch calls the device: torch_xla's and TorchTPU's.
_DEVICES = ("xla", "tpu")
_TILES = re.compile(r"devices=\[([\d,]+)\]")


class OptimizerSteps:
    """Notes each `optimizer.step()` of torch.optim. Optimizers are numbered by the first of their weights."""

    def __init__(self) -> None:
        self._stepped: set[int] = set()
        register_optimizer_step_post_hook(self._after_step)

    def _after_step(self, optimizer: Any, _args: Any, _options: Any) -> None:
        self._stepped.add(optimizer_number(optimizer))

    def take(self) -> frozenset[int]:
        """Optimizers that stepped since the last call."""
        found = frozenset(self._stepped)
        self._stepped.clear()
        return found


def optimizers() -> list[Any]:
    """All optimizers of the process; wrappers by libraries included."""
    return [each for each in gc.get_objects() if issubclass(type(each), torch.optim.Optimizer)]


def device_optimizers() -> frozenset[int]:
    """Numbers of the optimizers with a trainable weight on the device."""
    return frozenset(
        optimizer_number(each)
        for each in optimizers()
        if any(weight.device.type in _DEVICES and weight.requires_grad for weight in _weights(each))
    )


def _weights(optimizer: Any) -> list[torch.Tensor]:
    return [weight for group in getattr(optimizer, "param_groups", ()) for weight in group["params"]]


def optimizer_number(optimizer: Any) -> int:
    """A library's wrapper and the optimizer inside it have the same weights, and so the same number."""
    return min((id(weight) for weight in _weights(optimizer)), default=0)


def trainable_ids(core: Any) -> set[int]:
    """XLA tensor ids of all trainable weights: parameters that want gradients, and what optimizers hold."""
    found = [weight for each in optimizers() for weight in _weights(each)]
    found += [each for each in gc.get_objects() if type(each) is torch.nn.Parameter and each.requires_grad]
    return {core._xla_get_tensor_id(each) for each in found if each.device.type == "xla"}


def resident_entries(
    core: Any, tensors: Iterable[torch.Tensor], names: dict[int, str]
) -> list[dict[str, Any]]:
    """Name, shape, type and bytes on one device of tensors that wait in memory while a graph runs.

    Those of one shape that no variable of the script names (the next batches of a loader) are one entry.
    """
    entries: dict[Any, dict[str, Any]] = {}
    for each in tensors:
        number = core._xla_get_tensor_id(each)
        name, dtype = names.get(number, ""), str(each.dtype).split(".")[-1]
        key = number if name else (tuple(each.shape), dtype)
        entry = entries.setdefault(
            key, {"name": name, "shape": list(each.shape), "dtype": dtype, "bytes": 0, "count": 0}
        )
        shards = _shards(core._get_xla_sharding_spec(each))
        entry["bytes"] += each.numel() * each.element_size() // shards
        entry["count"] += 1
    return sorted(entries.values(), key=lambda entry: -int(entry["bytes"]))


def _shards(spec: str) -> int:
    """How many parts a sharding such as `{devices=[4,1]0,1,2,3}` makes of a tensor."""
    found = _TILES.search(spec or "")
    if found is None:
        return 1
    sizes = [int(size) for size in found.group(1).split(",")]
    return max(1, math.prod(sizes[:-1] if "last_tile_dim_replicate" in spec else sizes))
