"""Each layer keeps its input, and computes the rest again in the backward pass."""

import sys

import torch
import torch_xla
from torch_xla.utils.checkpoint import checkpoint

WIDTH, DEPTH, STEPS = 2048, 8, 3
BATCH = int(sys.argv[1]) if len(sys.argv) > 1 else 196608

torch.manual_seed(0)
device = torch_xla.device()
layers = torch.nn.ModuleList(
    [
        torch.nn.Sequential(
            torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU(), torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU()
        )
        for _ in range(DEPTH)
    ]
).to(device, torch.bfloat16)
optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)
batch = torch.ones(BATCH, WIDTH).to(device, torch.bfloat16)

for _ in range(STEPS):
    optimizer.zero_grad()
    # [shown]
    # The first input must need a gradient, as an embedding's output does: else no checkpoint gets one.
    x = batch.requires_grad_()
    for layer in layers:
        x = checkpoint(layer, x)
    # [/shown]
    loss = x.float().square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()

print("result", loss.item())
