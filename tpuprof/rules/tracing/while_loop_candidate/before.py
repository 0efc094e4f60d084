"""A Python loop over the rounds of an iterative solver: each round stands in the graph."""

import sys

import torch
import torch_xla

import tpuprof

WIDTH = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
ROUNDS, STEPS = 20, 8

torch.manual_seed(0)
device = torch_xla.device()
target = torch.eye(WIDTH).to(device) * 3 + torch.randn(WIDTH, WIDTH).to(device) * 0.01


start = target.T * 0.1
torch_xla.sync()


# [shown]
def solve(x, matrix):
    for _ in range(ROUNDS):
        x = x + x - x @ matrix @ x
    return x


# [/shown]


with torch.no_grad():
    for step in range(STEPS):
        tpuprof.step(step)
        inverse = solve(start, target)
        torch_xla.sync()

print("result", inverse.diagonal().mean().item())
