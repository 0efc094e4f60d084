"""Sizes that are multiples of 128."""

import torch
import torch_xla

GROUPS, STEPS = 64, 4
# [shown]
LENGTH, WIDTH, HIDDEN = 128, 128, 256
# [/shown]

torch.manual_seed(0)
device = torch_xla.device()
up = (torch.randn(GROUPS, WIDTH, HIDDEN) / WIDTH**0.5).to(device, torch.bfloat16)
down = (torch.randn(GROUPS, HIDDEN, WIDTH) / HIDDEN**0.5).to(device, torch.bfloat16)
batch = torch.randn(GROUPS, LENGTH, WIDTH).to(device, torch.bfloat16)

with torch.no_grad():
    for _ in range(STEPS):
        batch = torch.relu(batch @ up) @ down
        torch_xla.sync()

print("result", batch.float().mean().item())
