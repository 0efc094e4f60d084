"""The same loop, with its steps marked."""

import torch
import torch_xla

import tpuprof

WIDTH, BATCH, STEPS = 512, 128, 40

torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(2)]).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(4, BATCH, WIDTH).to(device)

# [shown]
for step in range(STEPS):
    tpuprof.step(step)
    for part in data[: 1 + step * step % 3]:
        loss = model(part).square().mean()
        loss.backward()
        torch_xla.sync()  # the number of graphs differs from step to step
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
# [/shown]

print("result", loss.item())
