"""The layers folded by scan_layers, with its cache on."""

import torch
import torch_xla
from cells import stack
from common import run
from torch_xla.experimental.scan_layers import scan_layers

layers = stack(24, 32).to(torch_xla.device())
optimizer = torch.optim.SGD(layers.parameters(), lr=1e-3)
batch = torch.randn(16, 32).to(torch_xla.device())


def step(_: int) -> None:
    optimizer.zero_grad()
    x = batch
    x = scan_layers(layers, x, is_layer_pure=True)
    x.square().mean().backward()
    optimizer.step()
    torch_xla.sync()


run(step)
