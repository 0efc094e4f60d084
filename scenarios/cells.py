"""Layers that do much with few parameters: each refines its input a few times with the same weights."""

from collections.abc import Callable

import torch
import torch_xla
from common import run
from torch import Tensor, nn

import tpuprof

ROUNDS = 3


class Cell(nn.Module):
    """One layer: [batch, width] to the same."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) / width**0.5)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(ROUNDS):
            centred = x - x.mean(-1, keepdim=True)
            normal = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5)
            x = x + torch.tanh(normal @ self.weight)
        return x


class Stack(nn.Module):
    """So many layers, always with the same parameters; `run_layers` applies them to the activations."""

    def __init__(
        self, layers: int, width: int, run_layers: Callable[[nn.ModuleList, Tensor], Tensor]
    ) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(Cell(width) for _ in range(layers))
        self.run_layers = run_layers

    def forward(self, x: Tensor) -> Tensor:
        return self.run_layers(self.layers, x)


def train(
    run_layers: Callable[[nn.ModuleList, Tensor], Tensor],
    layers: int = 32,
    width: int = 32,
    batch: int = 16,
    **options: int,
) -> None:
    """Train a stack of layers; `options` are those of `run`."""
    model = Stack(layers, width, run_layers).to(torch_xla.device())
    # On the CPU only their names tell the layers of a program apart.
    tpuprof.annotate_modules(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs = torch.randn(batch, width).to(torch_xla.device())

    def step(_: int) -> None:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        torch_xla.sync()

    run(step, **options)
