import time

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, held_out = torch.randn(256, 256).to(device), torch.randn(64, 256).to(device)


def evaluate():
    model.eval()
    with torch.no_grad():
        for _ in range(2):
            error = (model(held_out) - held_out).square().mean()
            torch_xla.sync()
    model.train()
    return error.item()


marks, errors = [], []
for step in range(40):
    optimizer.zero_grad()
    loss = (model(x) - x).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    if step % 5 == 4:
        errors.append(evaluate())
    marks.append(time.perf_counter())
print("loss", loss.item(), "errors", errors)
print(f"{(time.perf_counter() - marks[4]) / 35 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
