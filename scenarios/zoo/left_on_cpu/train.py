import time

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 8)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
total, marks = 0.0, []
for step in range(300):
    x, y = torch.randn(64, 256).to(device), torch.randint(0, 8, (64,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    total += loss.item()
    marks.append(time.perf_counter())
print("loss", total)
print(f"{(time.perf_counter() - marks[4]) / 295 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
