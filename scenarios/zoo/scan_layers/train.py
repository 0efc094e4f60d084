import time

import torch
import torch.nn as nn
import torch_xla
from torch_xla.experimental.scan_layers import scan_layers


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.mlp(self.norm(x))


torch.manual_seed(0)
device = torch_xla.device()
layers = nn.ModuleList([Layer(256) for _ in range(8)]).to(device)
head = nn.Linear(256, 16).to(device)
optimizer = torch.optim.AdamW([*layers.parameters(), *head.parameters()], lr=1e-3)
x = torch.randn(384, 256).to(device)
marks = []
for step in range(40):
    optimizer.zero_grad()
    loss = head(scan_layers(layers, x)).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[4]) / 35 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
