import time

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(64, 64).to(device)
values = torch.randn(64).to(device)
marks = []
for step in range(30):
    noisy = x.clone()
    mask = (x[:, 0] + 0.01 * step) > 0
    noisy[mask] = values[mask.long()][mask].unsqueeze(1)
    optimizer.zero_grad()
    loss = (model(noisy) - x).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[4]) / 25 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
