"""Sizes just above a multiple of 128: the chip computes with 256 and 384 columns."""

import torch
import torch_xla

WIDTH, HIDDEN, BATCH, STEPS = 136, 264, 1024, 4

torch.manual_seed(0)
device = torch_xla.device()
# [shown]
model = torch.nn.Sequential(torch.nn.Linear(136, 264), torch.nn.ReLU(), torch.nn.Linear(264, 136))
# [/shown]
model = model.to(device, torch.bfloat16)
batch = torch.randn(BATCH, WIDTH).to(device, torch.bfloat16)

with torch.no_grad():
    for _ in range(STEPS):
        batch = model(batch)
        torch_xla.sync()

print("result", batch.float().mean().item())
