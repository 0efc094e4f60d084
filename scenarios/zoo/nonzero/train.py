import time

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
model = nn.Linear(32, 32).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
labels = torch.randint(0, 2, (16, 40)).to(device)
x = torch.randn(40, 32).to(device)
marks = []
for step in range(16):
    chosen = torch.nonzero(labels[step % 16]).squeeze(1)
    picked = x[chosen[: len(chosen)]]
    optimizer.zero_grad()
    loss = model(picked).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[4]) / 11 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
