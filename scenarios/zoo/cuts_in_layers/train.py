import time

import torch
import torch.nn as nn
import torch_xla.core.xla_model as xm

torch.manual_seed(0)
device = xm.xla_device()
layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(10)]).to(device)
optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)
x = torch.randn(8, 64).to(device)
marks = []
for step in range(30):
    hidden = x
    for layer in layers:
        hidden = torch.relu(layer(hidden))
        xm.mark_step()
    loss = (hidden - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    xm.mark_step()
    marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[4]) / 25 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
