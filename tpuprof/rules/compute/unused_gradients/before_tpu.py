"""The optimizer has the head alone, and the backbone still requires gradients: they are summed for ever."""

import torch
import torch_tpu  # noqa: F401  # the "tpu" device

import tpuprof

WIDTH, DEPTH, BATCH, STEPS = 256, 8, 256, 150

torch.manual_seed(0)
layers = [layer for _ in range(DEPTH) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
backbone = torch.nn.Sequential(*layers).to("tpu")
head = torch.nn.Linear(WIDTH, 10).to("tpu")
# [shown]
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
# [/shown]
data = torch.randn(BATCH, WIDTH).to("tpu")

for step in range(STEPS):
    tpuprof.step(step)
    optimizer.zero_grad()
    loss = head(backbone(data)).square().mean()
    loss.backward()
    optimizer.step()

print("result", loss.item())
