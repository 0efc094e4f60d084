"""Sizes just above a multiple of 128: the chip computes with 256 and 384 columns."""

import torch
import torch_xla

GROUPS, STEPS = 64, 4
# [shown]
LENGTH, WIDTH, HIDDEN = 136, 136, 264
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
