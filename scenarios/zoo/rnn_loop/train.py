import time

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
cell = nn.GRUCell(16, 32).to(device)
head = nn.Linear(32, 1).to(device)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.05)
series = torch.randn(8, 16, 16).to(device)
marks = []
for step in range(25):
    h = torch.zeros(8, 32, device=device)
    for t in range(16):
        h = cell(series[:, t], h)
    loss = (head(h) - series.mean((1, 2))[:, None]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[4]) / 20 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
