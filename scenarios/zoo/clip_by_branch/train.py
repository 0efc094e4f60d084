import time

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
layers = [layer for _ in range(8) for layer in (nn.Linear(256, 256), nn.ReLU())]
model = nn.Sequential(*layers).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
LIMIT = 0.002
marks = []
for step in range(80):
    x, y = torch.randn(128, 256).to(device), torch.randn(128, 256).to(device)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    for weight in model.parameters():
        norm = weight.grad.norm()
        if norm > LIMIT:
            weight.grad.mul_(LIMIT / norm)
    optimizer.step()
    torch_xla.sync()
    marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[4]) / 75 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
