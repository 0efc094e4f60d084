"""The losses are summed on the device, and only the sum is kept."""

import torch
import torch_xla

import tpuprof

WIDTH, BATCH, STEPS = 256, 64, 40

torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.Linear(WIDTH, WIDTH).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.randn(BATCH, WIDTH).to(device)

# [shown]
total = torch.zeros((), device=device)
# [/shown]
for step in range(STEPS):
    tpuprof.step(step)
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    # [shown]
    total += loss.detach()
    # [/shown]
    torch_xla.sync()

print("result", (total / STEPS).item())
