import time

import torch
import torch.nn as nn
import torch_xla
from torch_xla.amp import syncfree

torch.manual_seed(0)
device = torch_xla.device()
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)).to(device)
optimizer = syncfree.SGD(model.parameters(), lr=0.01, momentum=0.9)
scaler = torch.amp.GradScaler("xla", init_scale=1024.0)
x = torch.randn(256, 256).to(device)
marks = []
for step in range(40):
    optimizer.zero_grad()
    with torch.autocast("xla", dtype=torch.bfloat16):
        loss = (model(x) - x).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    torch_xla.sync()
    marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[4]) / 35 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
