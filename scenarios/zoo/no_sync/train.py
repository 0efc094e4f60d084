import time

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total, marks = 0.0, []
for step in range(20):
    x, y = torch.randn(16, 64).to(device), torch.randint(0, 8, (16,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    total += loss.item()
    marks.append(time.perf_counter())
print("loss", total)
print(f"{(time.perf_counter() - marks[4]) / 15 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
