"""The batch is whole on each of four chips, and each computes all of it."""

import sys

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

WIDTH, HIDDEN, DEPTH, STEPS = 512, 1024, 3, 3
BATCH = int(sys.argv[1]) if len(sys.argv) > 1 else 65536


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = torch.nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x):
        return x + torch.tanh(self.down(torch.tanh(self.up(x))))


xr.use_spmd()
torch.manual_seed(0)
device = torch_xla.device()
layers = torch.nn.ModuleList([Layer() for _ in range(DEPTH)]).to(device, torch.bfloat16)
batch = torch.randn(BATCH, WIDTH).to(device, torch.bfloat16)
count = xr.global_runtime_device_count()
# [shown]
mesh = xs.Mesh(np.arange(count), (count,), ("data",))
xs.mark_sharding(batch, mesh, (None, None))
# [/shown]
optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)

for _ in range(STEPS):
    optimizer.zero_grad()
    x = batch
    for layer in layers:
        x = layer(x)
    loss = x.float().square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()

print("result", loss.item())
