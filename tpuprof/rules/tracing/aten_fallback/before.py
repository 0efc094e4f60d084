"""Every step takes a histogram by an op that XLA has no lowering for: it runs on the host."""

import torch
import torch_xla

import tpuprof

WIDTH, DEPTH, BATCH, STEPS = 512, 8, 448, 30

torch.manual_seed(0)
device = torch_xla.device()
layers = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH)]).to(device)
x = torch.randn(BATCH, WIDTH).to(device)
total = torch.zeros((), device=device)

with torch.no_grad():
    for step in range(STEPS):
        tpuprof.step(step)
        # [shown]
        counts = torch.histc(x, bins=16, min=-4, max=4)  # runs on the host
        total += counts[8:].sum()
        # [/shown]
        x = torch.nn.functional.layer_norm(layers(x), (WIDTH,))
        torch_xla.sync()

print("result", total.item())
