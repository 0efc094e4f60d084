"""No cache: every start compiles every graph."""

import torch
import torch_xla

# [shown]
device = torch_xla.device()
# [/shown]
print("result", torch.ones(3, device=device).sum().item())
