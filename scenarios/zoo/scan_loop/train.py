import time

import torch
import torch_xla
from torch_xla.experimental.scan import scan

torch.manual_seed(0)
device = torch_xla.device()
weights = (torch.randn(12, 512, 512) / 22).to(device).requires_grad_()
x = torch.randn(192, 512).to(device)


def layer(carry, weight):
    return torch.tanh(carry @ weight), carry.mean()


optimizer = torch.optim.SGD([weights], lr=0.1)
marks = []
for step in range(40):
    optimizer.zero_grad()
    out, means = scan(layer, x, weights)
    loss = out.square().mean() + means.square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[4]) / 35 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
