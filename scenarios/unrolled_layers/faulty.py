"""A Python loop over many small layers: each is traced in every step."""

import torch
import torch_xla
from cells import stack
from common import run

layers = stack(24, 32).to(torch_xla.device())
optimizer = torch.optim.SGD(layers.parameters(), lr=1e-3)
batch = torch.randn(16, 32).to(torch_xla.device())


def step(_: int) -> None:
    optimizer.zero_grad()
    x = batch
    for layer in layers:
        x = layer(x)
    x.square().mean().backward()
    optimizer.step()
    torch_xla.sync()


run(step)
