import time

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
blocks = [nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 32), nn.GELU()) for _ in range(12)]
model = nn.Sequential(*blocks).to(device).eval()
total, marks = 0.0, []
with torch.no_grad():
    for batch in range(1500):
        x = torch.full((4, 32), batch / 1500).to(device)
        total += model(x).cpu().square().mean().item()
        marks.append(time.perf_counter())
print("norm", total)
print(f"{(time.perf_counter() - marks[4]) / 1495 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
