"""Rows are replaced where a mask holds: the mask's indices are counted on the host, in the middle of the step."""

import torch
import torch_xla

import tpuprof

WIDTH, DEPTH, BATCH, STEPS = 512, 3, 1024, 14

torch.manual_seed(0)
device = torch_xla.device()
layers = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH)]).to(device)
x = torch.randn(BATCH, WIDTH).to(device)
total = torch.zeros((), device=device)

with torch.no_grad():
    for step in range(STEPS):
        tpuprof.step(step)
        noisy = layers(x)
        # [shown]
        small = noisy[:, 0] < 0
        noisy[small] = 0.0  # how many rows these are is read back
        # [/shown]
        x = torch.nn.functional.layer_norm(noisy + x, (WIDTH,))
        total += x[0].square().sum()
        torch_xla.sync()

print("result", total.item())
