import time

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
model = nn.Linear(64, 64).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
counts = torch.poisson(torch.full((8192, 64), 4.0)).to(device)
features = torch.randn(8192, 64).to(device)
marks = []
for step in range(35):
    optimizer.zero_grad()
    rate = nn.functional.softplus(model(features))
    loss = (rate - counts * rate.log() + torch.lgamma(counts + 1)).mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[4]) / 30 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
