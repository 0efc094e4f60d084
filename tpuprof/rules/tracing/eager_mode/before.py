"""Eager mode without `torch_xla.compile`: each op of the step is a program of its own."""

import torch
import torch_xla

import tpuprof

WIDTH, DEPTH, BATCH, STEPS = 64, 4, 16, 60

torch_xla.experimental.eager_mode(True)
torch.manual_seed(0)
device = torch_xla.device()
layers = [layer for _ in range(DEPTH) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
model = torch.nn.Sequential(*layers).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(BATCH, WIDTH).to(device)


# [shown]
def train_step(data):
    optimizer.zero_grad()
    loss = model(data).square().mean()
    loss.backward()
    optimizer.step()
    return loss


# [/shown]
for step in range(STEPS):
    tpuprof.step(step)
    # [shown]
    loss = train_step(data)
    # [/shown]

print("result", loss.item())
