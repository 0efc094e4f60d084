import time

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
model = nn.Sequential(
    nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 512)
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
# Batches are of twelve lengths, each of which comes once per epoch.
batches = [torch.randn(128 + 16 * at, 512).to(device) for at in range(12)]
marks = []
for epoch in range(10):
    for batch in batches:
        optimizer.zero_grad()
        loss = (model(batch) - batch).square().mean()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[23]) / 96 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
