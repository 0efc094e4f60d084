"""Attention is written out: the matrix of scores goes through HBM."""

import torch
import torch_xla

BATCH, HEADS, LENGTH, WIDTH, STEPS = 4, 8, 2048, 128, 4

torch.manual_seed(0)
device = torch_xla.device()
query, key, value = (torch.randn(BATCH, HEADS, LENGTH, WIDTH).to(device, torch.bfloat16) for _ in range(3))
scale = WIDTH**-0.5

with torch.no_grad():
    for _ in range(STEPS):
        # [shown]
        weights = (query @ key.transpose(-1, -2) * scale).softmax(-1)
        out = weights @ value
        # [/shown]
        query = out
        torch_xla.sync()

print("result", out.float().mean().item())
