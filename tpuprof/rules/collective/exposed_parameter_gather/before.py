"""FSDPv2 gathers every weight twice per step, with little to compute meanwhile."""

import sys

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.experimental.spmd_fully_sharded_data_parallel import SpmdFullyShardedDataParallel

WIDTH, DEPTH, STEPS = 1024, 3, 3
# [shown]
BATCH = 2048
# [/shown]
if len(sys.argv) > 1:
    BATCH = int(sys.argv[1])


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.down = torch.nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        return x + torch.tanh(self.down(torch.tanh(self.up(x))))


xr.use_spmd()
torch.manual_seed(0)
device = torch_xla.device()
layers = torch.nn.ModuleList([Layer() for _ in range(DEPTH)]).to(device, torch.bfloat16)
batch = torch.ones(BATCH, WIDTH).to(device, torch.bfloat16)
count = xr.global_runtime_device_count()
# [shown]
mesh = xs.Mesh(np.arange(count), (count,), ("fsdp",))
xs.set_global_mesh(mesh)
layers = torch.nn.ModuleList([SpmdFullyShardedDataParallel(layer, mesh=mesh) for layer in layers])
xs.mark_sharding(batch, mesh, ("fsdp", None))
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
