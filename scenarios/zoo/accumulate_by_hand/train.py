import time

import torch
import torch.nn as nn
import torch_xla

accumulate = 4
torch.manual_seed(0)
device = torch_xla.device()
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(192, 512).to(device)
marks = []
for step in range(30):
    optimizer.zero_grad()
    for micro in range(accumulate):
        loss = (model(x) - x).square().mean() / accumulate
        loss.backward()
        torch_xla.sync()
    optimizer.step()
    torch_xla.sync()
    marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[4]) / 25 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
