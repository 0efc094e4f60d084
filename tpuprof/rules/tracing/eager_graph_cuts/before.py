"""The graph is cut after each micro batch: seventeen programs for one step of training."""

import torch
import torch_xla

import tpuprof

WIDTH, DEPTH, BATCH, PARTS, STEPS = 64, 4, 8, 16, 40

torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH)]).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(PARTS, BATCH, WIDTH).to(device)

for step in range(STEPS):
    tpuprof.step(step)
    optimizer.zero_grad()
    # [shown]
    for number in range(PARTS):
        loss = model(data[number]).square().mean() / PARTS
        loss.backward()
        torch_xla.sync()
    optimizer.step()
    torch_xla.sync()
    # [/shown]

print("result", loss.item())
