"""Each step's loss stays on the device for good."""

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
losses = []
# [/shown]
for step in range(STEPS):
    tpuprof.step(step)
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    # [shown]
    losses.append(loss.detach())  # one more tensor on the device after each step
    # [/shown]
    torch_xla.sync()

print("result", torch.stack(losses).mean().item())
