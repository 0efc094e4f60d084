"""Each step skips other layers: every set of layers is a graph of its own, and compiles."""

import random

import torch
import torch_xla

import tpuprof

WIDTH, DEPTH, BATCH, STEPS, DROP = 768, 6, 256, 24, 0.4

torch.manual_seed(0)
random.seed(0)
device = torch_xla.device()
layers = torch.nn.ModuleList([torch.nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH)]).to(device)
optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)
batch = torch.randn(BATCH, WIDTH).to(device)

for step in range(STEPS):
    tpuprof.step(step)
    optimizer.zero_grad()
    x = batch
    # [shown]
    for layer in layers:
        if random.random() > DROP:
            x = x + torch.tanh(layer(x))
    # [/shown]
    loss = x.square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()

print("result", loss.item())
