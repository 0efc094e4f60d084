import time

import torch
import torch.nn as nn
import torch_xla.core.xla_model as xm

torch.manual_seed(0)
device = xm.xla_device()
layers = []
for _ in range(14):
    layers += [nn.Linear(32, 32), nn.LayerNorm(32), nn.GELU()]
model = nn.Sequential(*layers, nn.Linear(32, 2)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x, y = torch.randn(8, 32).to(device), torch.randint(0, 2, (8,)).to(device)
total, marks = 0.0, []
for step in range(40):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    xm.mark_step()
    total += loss.item()
    marks.append(time.perf_counter())
print("mean loss", total / 40)
print(f"{(time.perf_counter() - marks[4]) / 35 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
