import time

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512)).to(device)
compiled = torch.compile(model, backend="openxla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(256, 512).to(device)
marks = []
for step in range(40):
    optimizer.zero_grad()
    loss = (compiled(x) - x).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[4]) / 35 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
