"""Train without it; it is started where memory is looked for."""

import sys
import tracemalloc

import torch
import torch_xla

import tpuprof

# [shown]
if "--look-for-memory" in sys.argv:
    tracemalloc.start(25)
# [/shown]

WIDTH, DEPTH, BATCH, STEPS = 64, 24, 32, 60

torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH)]).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.randn(BATCH, WIDTH).to(device)

for step in range(STEPS):
    tpuprof.step(step)
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()

print("result", loss.item())
