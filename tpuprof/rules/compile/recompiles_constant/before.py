"""The step number selects a noise level: the index is a constant of the graph, and each value compiles."""

import torch
import torch_xla

import tpuprof

WIDTH, BATCH, STEPS = 1024, 256, 24

torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(2)]).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
clean = torch.randn(BATCH, WIDTH).to(device)
noise = torch.randn(BATCH, WIDTH).to(device)
schedule = torch.linspace(0.1, 0.9, STEPS).to(device)

for step in range(STEPS):
    tpuprof.step(step)
    # [shown]
    level = schedule[step]  # the index is baked into the graph
    # [/shown]
    optimizer.zero_grad()
    loss = (model(clean + level * noise) - clean).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()

print("result", loss.item())
