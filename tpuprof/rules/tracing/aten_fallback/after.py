"""The same histogram by ops that XLA lowers."""

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
        bins = ((x + 4) * 2).floor().clamp(-1, 16)  # [-4, 4) in 16 bins
        counts = (bins.flatten()[:, None] == torch.arange(16, device=device)).float().sum(0)
        total += counts[8:].sum()
        # [/shown]
        x = torch.nn.functional.layer_norm(layers(x), (WIDTH,))
        torch_xla.sync()

print("result", total.item())
