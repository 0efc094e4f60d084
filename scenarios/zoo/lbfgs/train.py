import time

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1)).to(device)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4, history_size=5)
x = torch.randn(256, 16).to(device)
y = x.sin().sum(1, keepdim=True)
marks, calls = [], 0


def closure():
    global calls
    calls += 1
    optimizer.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    torch_xla.sync()
    return loss


for step in range(30):
    loss = optimizer.step(closure)
    torch_xla.sync()
    marks.append(time.perf_counter())
print("loss", loss.item(), "evaluations", calls)
print(f"{(time.perf_counter() - marks[6]) / 23 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
