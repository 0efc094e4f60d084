"""What the TorchTPU scenarios share: the "tpu" device, a model, and a loop that times itself.

The scripts know nothing of tpuprof: steps are what the optimizer's calls make of them.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable

_BEGAN = time.perf_counter()

import torch
import torch_tpu  # noqa: F401  # the backend
from torch_tpu import _loader
from torch_tpu._internal import tracing

# What an import does where a TPU is on the PCI bus; a CPU plugin is on none.
_loader._init_device("tpu")
tracing.enable_if_requested()

# Steps that are not timed: programs compile in them.
WARMUP = 6
# Steps that are timed.
STEPS = 60
CLASSES = 10


def run(step: Callable[[int], object], steps: int = STEPS, warmup: int = WARMUP) -> None:
    """Train `warmup` steps, then `steps` timed ones, the device's backlog included; print milliseconds per step.

    `start_s` is the time from the script's first line to the end of the warm-up.
    """
    # Python's rounds over everything that imports have left would fall into some runs' steps and not into others'.
    gc.collect()
    gc.freeze()
    for number in range(warmup):
        step(number)
    torch.accelerator.synchronize()
    began = time.perf_counter()
    for number in range(warmup, warmup + steps):
        step(number)
    torch.accelerator.synchronize()
    ended = time.perf_counter()
    facts = {"step_ms": (ended - began) * 1e3 / steps, "steps": steps, "start_s": began - _BEGAN}
    print("SCENARIO " + json.dumps(facts), flush=True)


def mlp(width: int, depth: int) -> torch.nn.Module:
    """A model on the device, always with the same parameters."""
    torch.manual_seed(0)
    layers = [layer for _ in range(depth) for layer in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, CLASSES)).to("tpu")


def batch(rows: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs [rows, width] and their classes [rows], on the device."""
    return torch.randn(rows, width).to("tpu"), torch.randint(0, CLASSES, (rows,)).to("tpu")
