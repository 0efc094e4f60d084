import time

import torch
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
weight = torch.zeros(16, 1, device=device)
marks, total = [], 0.0
for step in range(28):
    x = torch.randn(32, 16)
    y = x.sum(1, keepdim=True).to(device)
    x = x.to(device)
    weight.requires_grad_()
    loss = ((x @ weight).tanh() - y).square().mean()
    (gradient,) = torch.autograd.grad(loss, weight)
    weight = (weight - 0.01 * gradient).detach()
    total += loss.item()
    marks.append(time.perf_counter())
print("loss", total)
print(f"{(time.perf_counter() - marks[4]) / 23 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
