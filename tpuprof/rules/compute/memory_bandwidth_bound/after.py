"""The weights are read once for all sequences."""

import sys

import torch
import torch_xla

SEQUENCES, TOKENS, STEPS = 16, 64, 4
WIDTH = int(sys.argv[1]) if len(sys.argv) > 1 else 8192

torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH))
model = model.to(device, torch.bfloat16)
data = torch.randn(SEQUENCES, TOKENS, WIDTH).to(device, torch.bfloat16)

with torch.no_grad():
    for _ in range(STEPS):
        # [shown]
        out = model(data.flatten(0, 1)).unflatten(0, data.shape[:2])
        # [/shown]
        total = out.float().square().mean()
        torch_xla.sync()

print("result", total.item())
