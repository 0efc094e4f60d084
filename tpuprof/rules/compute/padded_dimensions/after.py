"""Sizes that are multiples of 128."""

import torch
import torch_xla

WIDTH, HIDDEN, BATCH, STEPS = 128, 256, 1024, 4

torch.manual_seed(0)
device = torch_xla.device()
# [shown]
model = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.ReLU(), torch.nn.Linear(256, 128))
# [/shown]
model = model.to(device, torch.bfloat16)
batch = torch.randn(BATCH, WIDTH).to(device, torch.bfloat16)

with torch.no_grad():
    for _ in range(STEPS):
        batch = model(batch)
        torch_xla.sync()

print("result", batch.float().mean().item())
