"""Norms stay on the device until all are there, and are read at once."""

import torch
import torch_tpu  # noqa: F401  # the "tpu" device

import tpuprof

WIDTH, DEPTH, BATCH, STEPS = 64, 6, 16, 80

torch.manual_seed(0)
layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH)).to("tpu")
optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)
data = torch.randn(BATCH, WIDTH).to("tpu")
log = []


def train_step():
    optimizer.zero_grad()
    # [shown]
    hidden, norms = data, []
    for layer in layers:
        hidden = layer(hidden).relu()
        norms.append(hidden.detach().norm())
    log.append(torch.stack(norms).tolist())
    # [/shown]
    hidden.square().mean().backward()
    optimizer.step()


for step in range(STEPS):
    tpuprof.step(step)
    train_step()

print("result", sum(log[0]))
