"""AdamW updates each parameter with ops of its own."""

import torch
import torch_tpu  # noqa: F401  # the "tpu" device

import tpuprof

WIDTH, DEPTH, BATCH, STEPS = 64, 8, 16, 60

torch.manual_seed(0)
layers = [layer for _ in range(DEPTH) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
model = torch.nn.Sequential(*layers).to("tpu")
# [shown]
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
# [/shown]
data = torch.randn(BATCH, WIDTH).to("tpu")

for step in range(STEPS):
    tpuprof.step(step)
    optimizer.zero_grad()
    loss = model(data).square().mean()
    loss.backward()
    optimizer.step()

print("result", loss.item())
