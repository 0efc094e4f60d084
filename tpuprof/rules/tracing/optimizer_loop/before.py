"""AdamW updates each parameter with ops of its own."""

import torch
import torch_xla

import tpuprof

WIDTH, DEPTH, BATCH, STEPS = 16, 16, 8, 40

torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH)]).to(device)
data = torch.randn(BATCH, WIDTH).to(device)
# [shown]
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
# [/shown]

for step in range(STEPS):
    tpuprof.step(step)
    optimizer.zero_grad()
    loss = model(data).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()

print("result", loss.item())
