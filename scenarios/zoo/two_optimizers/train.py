import time

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
embed = nn.EmbeddingBag(5000, 256, mode="mean").to(device)
tower = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).to(device)
slow = torch.optim.Adagrad(embed.parameters(), lr=0.01)
fast = torch.optim.AdamW(tower.parameters(), lr=1e-3)
ids = torch.randint(0, 5000, (1200, 20)).to(device)
goal = torch.randn(1200, 256).to(device)
marks = []
for step in range(40):
    loss = (tower(embed(ids)) - goal).square().mean()
    slow.zero_grad()
    fast.zero_grad()
    loss.backward()
    slow.step()
    fast.step()
    torch_xla.sync()
    marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[4]) / 35 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
