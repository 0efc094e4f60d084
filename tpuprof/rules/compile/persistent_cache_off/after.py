"""A cache is asked for before the first graph."""

import torch
import torch_xla

# [shown]
import torch_xla.runtime as xr

xr.initialize_cache("/persistent/xla_cache", readonly=False)
device = torch_xla.device()
# [/shown]
print("result", torch.ones(3, device=device).sum().item())
