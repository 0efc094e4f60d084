"""What the sample scripts share: the model, and recording a few steady steps of a training loop."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

# One thread for the device, so that it does not take the core the host traces on.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla

import tpuprof
from tpuprof.demo.decoder import Decoder, Shape, next_token_loss

WARMUP = 4
STEPS = 6
NAME = "capture"


def record(train_step: Callable[[int], None], steps: int = STEPS) -> None:
    """Run a train step until it is steady and record `steps` of it into the folder given on the command line."""
    with tpuprof.profile(sys.argv[1], warmup=WARMUP, steps=steps, name=NAME) as profile:
        for step in range(WARMUP + steps + 2):
            train_step(step)
            profile.step()
    torch_xla.sync(wait=True)


def trainer(model: torch.nn.Module, rate: float = 1e-2) -> Callable[[torch.Tensor], torch.Tensor]:
    """One step of training: forward, backward, optimizer, graph cut; the loss is returned, not read."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)

    def train(tokens: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        with tpuprof.annotate("forward"):
            loss = next_token_loss(model, tokens)
        with tpuprof.annotate("backward"):
            loss.backward()
        with tpuprof.annotate("optimizer"):
            optimizer.step()
        torch_xla.sync()
        return loss

    return train


def decoder(shape: Shape, **options: object) -> Decoder:
    """The model on the XLA device, every module annotated by its path."""
    torch.manual_seed(0)
    model = Decoder(shape, **options).to(torch_xla.device())
    tpuprof.annotate_modules(model)
    return model


def random_tokens(batch: int, length: int) -> torch.Tensor:
    """Token ids [batch, length] on the XLA device."""
    return torch.randint(Shape.vocabulary, (batch, length)).to(torch_xla.device())
