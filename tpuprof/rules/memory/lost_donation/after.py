"""Weights are updated in place: torch_xla gives the old ones' memory to the new ones."""

import torch
import torch_xla

import tpuprof

WIDTH, DEPTH, BATCH, STEPS = 512, 4, 64, 30

torch.manual_seed(0)
device = torch_xla.device()
weights = [(torch.randn(WIDTH, WIDTH) / WIDTH**0.5).to(device) for _ in range(DEPTH)]
batch = torch.randn(BATCH, WIDTH).to(device)

for step in range(STEPS):
    tpuprof.step(step)
    weights = [weight.requires_grad_() for weight in weights]
    x = batch
    for weight in weights:
        x = torch.tanh(x @ weight)
    loss = x.square().mean()
    gradients = torch.autograd.grad(loss, weights)
    with torch.no_grad():
        # [shown]
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.sub_(0.1 * gradient)
        # [/shown]
    torch_xla.sync()

print("result", loss.item())
