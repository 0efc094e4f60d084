import time
import tracemalloc

import torch
import torch.nn as nn
import torch_xla


class Block(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))


# Who eats all the memory?
tracemalloc.start(20)

torch.manual_seed(0)
device = torch_xla.device()
model = nn.Sequential(*[Block() for _ in range(12)]).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(4, 48).to(device)
marks = []
for step in range(40):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[4]) / 35 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
