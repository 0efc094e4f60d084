"""Heads are kept behind positions: each product by head has to copy its inputs into another order."""

import sys

import torch
import torch_xla

BATCH, HEADS, WIDTH, STEPS = 4, 16, 128, 4
LENGTH = int(sys.argv[1]) if len(sys.argv) > 1 else 1024

torch.manual_seed(0)
device = torch_xla.device()
query, key = (torch.randn(BATCH, LENGTH, HEADS, WIDTH) for _ in range(2))
query, key = (each.to(device, torch.bfloat16) for each in (query, key))


# [shown]
def score(query, key):
    # kept as [batch, length, heads, width]
    return query.transpose(1, 2) @ key.permute(0, 2, 3, 1)


# [/shown]


for _ in range(STEPS):
    total = score(query, key).square().sum(dtype=torch.float32)
    torch_xla.sync()

print("result", total.item())
