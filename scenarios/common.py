"""What the scenario scripts share: the environment, a model, and a training loop that times itself.

A scenario is a pair of training scripts: `faulty.py` has one planted fault, `cured.py` does the same work without it.
Both mark their steps, run a fixed number of them, and print what a step took as one line of JSON.
"""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable

# One thread for the device, so that it does not take the core the host traces on. The flag covers Eigen's operations
# alone; the size of the pool that runs all others is PJRT's NPROC.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("NPROC", "1")
os.environ.setdefault("PJRT_DEVICE", "CPU")

_BEGAN = time.perf_counter()

import torch
import torch_xla

import tpuprof
from tpuprof.demo.decoder import Decoder, Shape, next_token_loss

# Steps that are not timed: the first compiles, the second may too.
WARMUP = 4
# Steps that are timed.
STEPS = 120


def run(step: Callable[[int], object], steps: int = STEPS, warmup: int = WARMUP) -> None:
    """Train `warmup` steps, then `steps` timed ones, the device's backlog included; print milliseconds per step.

    `start_s` is the time from the script's first line to the end of the warm-up.
    """
    # Python's rounds over everything that imports have left would fall into some runs' steps and not into others'.
    gc.collect()
    gc.freeze()
    for number in range(warmup):
        tpuprof.step(number)
        result = step(number)
    _drain(result)
    began = time.perf_counter()
    for number in range(warmup, warmup + steps):
        tpuprof.step(number)
        result = step(number)
    tpuprof.step(warmup + steps)
    _drain(result)
    ended = time.perf_counter()
    facts = {"step_ms": (ended - began) * 1e3 / steps, "steps": steps, "start_s": began - _BEGAN}
    print("SCENARIO " + json.dumps(facts), flush=True)


def _drain(result: object) -> None:
    """Wait for all device work. `sync(wait=True)` does not where there are several devices: reading a result does."""
    torch_xla.sync(wait=True)
    if isinstance(result, torch.Tensor):
        result.cpu()


def decoder(shape: Shape, **options: object) -> Decoder:
    """The model on the XLA device, always with the same parameters."""
    torch.manual_seed(0)
    return Decoder(shape, **options).to(torch_xla.device())


def tokens(batch: int, length: int) -> torch.Tensor:
    """Token ids [batch, length] on the XLA device."""
    return torch.randint(Shape.vocabulary, (batch, length)).to(torch_xla.device())


class Trainer:
    """Forward pass, backward pass and optimizer of one step; the graph is cut only where `cut` is called."""

    def __init__(self, model: torch.nn.Module, rate: float = 1e-3) -> None:
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=rate)

    def __call__(self, batch: torch.Tensor, *, cut: bool = True) -> torch.Tensor:
        """Train on one batch; returns the loss, unread."""
        self.optimizer.zero_grad()
        loss = next_token_loss(self.model, batch)
        loss.backward()
        self.optimizer.step()
        if cut:
            torch_xla.sync()
        return loss
