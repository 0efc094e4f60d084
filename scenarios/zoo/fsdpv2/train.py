import time

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.experimental.spmd_fully_sharded_data_parallel import SpmdFullyShardedDataParallel as FSDPv2

xr.use_spmd()
torch.manual_seed(0)
device = torch_xla.device()
count = xr.global_runtime_device_count()
mesh = xs.Mesh(np.arange(count), (count, 1), ("fsdp", "model"))
xs.set_global_mesh(mesh)
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512)).to(device)
model = FSDPv2(model, mesh=mesh, shard_output=lambda out, mesh: xs.mark_sharding(out, mesh, ("fsdp", None)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(256, 512).to(device)
xs.mark_sharding(x, mesh, ("fsdp", None))
marks = []
for step in range(40):
    optimizer.zero_grad()
    loss = (model(x) - x).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    marks.append(time.perf_counter())
print(f"loss {loss.item():.4f}")
print(f"{(time.perf_counter() - marks[4]) / 35 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
