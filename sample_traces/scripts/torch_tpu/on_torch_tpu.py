"""What the TorchTPU sample scripts share: the device on a CPU plugin, a model, and recording a few steady steps."""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
import torch_tpu  # noqa: F401  # the backend
from torch_tpu import _loader

# What an import does where a TPU is on the PCI bus; a CPU plugin is on none.
_loader._init_device("tpu")

import tpuprof

WARMUP = 8
STEPS = 6
NAME = "capture"
WIDTH, CLASSES = 128, 10


def record(train_step: Callable[[int], None], steps: int = STEPS) -> None:
    """Run a train step until it is steady and record `steps` of it into the folder given on the command line."""
    with tpuprof.profile(sys.argv[1], warmup=WARMUP, steps=steps, name=NAME) as profile:
        for step in range(WARMUP + steps + 2):
            train_step(step)
            profile.step()
    torch.accelerator.synchronize()


def trainer(depth: int = 4) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """One step of training: forward, backward, optimizer; the loss is returned, not read."""
    torch.manual_seed(0)
    layers = [layer for _ in range(depth) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, CLASSES)).to("tpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train(inputs: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        with tpuprof.annotate("forward"):
            loss = torch.nn.functional.cross_entropy(model(inputs), classes)
        with tpuprof.annotate("backward"):
            loss.backward()
        with tpuprof.annotate("optimizer"):
            optimizer.step()
        return loss

    return train
