"""The shardings are given."""

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch_xla.experimental.spmd_fully_sharded_data_parallel import SpmdFullyShardedDataParallel

# [shown]
xr.use_spmd()
count = xr.global_runtime_device_count()
mesh = xs.Mesh(np.arange(count), (count,), ("fsdp",))
model = SpmdFullyShardedDataParallel(torch.nn.Linear(1024, 1024), mesh=mesh)
# [/shown]
batch = torch.randn(64, 1024).to(torch_xla.device())
xs.mark_sharding(batch, mesh, ("fsdp", None))
loss = model(batch).square().mean()
torch_xla.sync()
print("result", loss.item())
