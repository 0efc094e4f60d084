import time

import numpy as np
import torch
import torch.nn as nn
import torch_xla.core.xla_model as xm
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

xr.use_spmd()
torch.manual_seed(0)
device = xm.xla_device()
mesh = xs.Mesh(np.arange(4), (2, 2), ("data", "model"))
up, down = nn.Linear(512, 2048).to(device), nn.Linear(2048, 512).to(device)
xs.mark_sharding(up.weight, mesh, ("model", None))
xs.mark_sharding(down.weight, mesh, (None, "model"))
optimizer = torch.optim.SGD([*up.parameters(), *down.parameters()], lr=0.01)
x = torch.randn(256, 512).to(device)
xs.mark_sharding(x, mesh, ("data", None))
marks = []
for step in range(40):
    optimizer.zero_grad()
    loss = (down(torch.relu(up(x))) - x).pow(2).mean()
    loss.backward()
    optimizer.step()
    xm.mark_step()
    marks.append(time.perf_counter())
print(f"loss {loss.item():.4f}")
print(f"{(time.perf_counter() - marks[4]) / 35 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
