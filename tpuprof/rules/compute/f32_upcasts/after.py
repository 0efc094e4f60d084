"""The activation is kept in bfloat16: float32 lives inside one op only."""

import sys

import torch
import torch_xla

WIDTH, STEPS = 4096, 4
BATCH = int(sys.argv[1]) if len(sys.argv) > 1 else 8192

torch.manual_seed(0)
device = torch_xla.device()
hidden = torch.randn(BATCH, WIDTH).to(device, torch.bfloat16)
torch_xla.sync()

for _ in range(STEPS):
    # [shown]
    activation = torch.tanh(hidden.float()).to(hidden.dtype)
    # [/shown]
    torch_xla.sync()

if len(sys.argv) > 1:  # only of the small size: what a result takes is a graph of its own
    print("result", activation[0].double().square().mean().item())
