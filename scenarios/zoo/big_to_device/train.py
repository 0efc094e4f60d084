import time

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
table = torch.randn(4, 4096, 1024)
model = nn.Linear(1024, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
times = []
for step in range(40):
    batch = table.to(device)
    optimizer.zero_grad()
    loss = model(batch[:, :32]).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    times.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - times[4]) / 35 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(times, times[1:])))
