"""The rounds are one while loop on the device."""

import sys

import torch
import torch_xla
import torch_xla.experimental.fori_loop  # registers while_loop for XLA
from torch._higher_order_ops.while_loop import while_loop

import tpuprof

WIDTH = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
ROUNDS, STEPS = 20, 8

torch.manual_seed(0)
device = torch_xla.device()
target = torch.eye(WIDTH).to(device) * 3 + torch.randn(WIDTH, WIDTH).to(device) * 0.01


start = target.T * 0.1
rounds = torch.tensor([ROUNDS], dtype=torch.int32, device=device)
torch_xla.sync()


# [shown]
def unfinished(left, x, matrix):
    return left[0] > 0


def refine(left, x, matrix):
    return left - 1, x + x - x @ matrix @ x, matrix.clone()


def solve(x, matrix):
    # rounds, x and matrix were computed before: a pending op would become an input that the body does not return
    return while_loop(unfinished, refine, (rounds, x, matrix))[1]


# [/shown]


with torch.no_grad():
    for step in range(STEPS):
        tpuprof.step(step)
        inverse = solve(start, target)
        torch_xla.sync()

print("result", inverse.diagonal().mean().item())
