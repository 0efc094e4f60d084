import time

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
model = nn.Sequential(nn.Linear(512, 1536), nn.GELU(), nn.Linear(1536, 512)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = torch.randn(8, 192, 512).to(device)
marks = []
for step in range(30):
    optimizer.zero_grad()
    x = data[step % 8]
    loss = (model(x) - x).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[4]) / 25 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
