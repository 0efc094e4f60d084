"""The compiler searches for a sharding of every tensor."""

import torch
import torch_xla
import torch_xla.runtime as xr

# [shown]
xr.use_spmd(auto=True)
model = torch.nn.Linear(1024, 1024).to(torch_xla.device())
# [/shown]
batch = torch.randn(64, 1024).to(torch_xla.device())
loss = model(batch).square().mean()
torch_xla.sync()
print("result", loss.item())
