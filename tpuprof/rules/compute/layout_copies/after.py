"""Heads are kept before positions, in the order in which they are multiplied."""

import sys

import torch
import torch_xla

BATCH, HEADS, WIDTH, STEPS = 4, 16, 128, 4
LENGTH = int(sys.argv[1]) if len(sys.argv) > 1 else 1024

torch.manual_seed(0)
device = torch_xla.device()
query, key = (torch.randn(BATCH, LENGTH, HEADS, WIDTH) for _ in range(2))
query, key = (each.transpose(1, 2).contiguous().to(device, torch.bfloat16) for each in (query, key))


# [shown]
def score(query, key):
    # kept as [batch, heads, length, width]
    return query @ key.transpose(2, 3)


# [/shown]


for _ in range(STEPS):
    total = score(query, key).square().sum(dtype=torch.float32)
    torch_xla.sync()

print("result", total.item())
