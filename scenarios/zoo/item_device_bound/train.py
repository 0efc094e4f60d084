import time

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
model = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 1024)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
x = torch.randn(256, 1024).to(device)
losses, marks = [], []
for step in range(40):
    optimizer.zero_grad()
    loss = (model(x) - x).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    losses.append(loss.item())
    marks.append(time.perf_counter())
print("losses", losses)
print(f"{(time.perf_counter() - marks[4]) / 35 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
