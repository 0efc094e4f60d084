"""torch.where keeps the branch on the device, and the graph whole."""

import torch
import torch_tpu  # noqa: F401  # the "tpu" device

import tpuprof

WIDTH, BATCH, STEPS = 64, 16, 60

torch.manual_seed(0)
first, second = (torch.nn.Linear(WIDTH, WIDTH).to("tpu") for _ in range(2))
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.01)
data = torch.randn(BATCH, WIDTH).to("tpu")


# [shown]
@torch.compile
def forward(data):
    hidden = first(data)
    hidden = torch.where(hidden.sum() > 0, hidden * 0.5, hidden)
    return second(hidden).square().mean()


# [/shown]
for step in range(STEPS):
    tpuprof.step(step)
    optimizer.zero_grad()
    loss = forward(data)
    loss.backward()
    optimizer.step()

print("result", loss.item())
