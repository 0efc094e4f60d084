"""One op of AdamW updates each parameter."""

import torch
import torch_xla
from torch_xla.amp import syncfree

import tpuprof

WIDTH, DEPTH, BATCH, STEPS = 16, 16, 8, 40

torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH)]).to(device)
data = torch.randn(BATCH, WIDTH).to(device)
# [shown]


class AdamW(syncfree.AdamW):
    def step(self, closure=None):
        return super().step(closure, found_inf=torch.zeros((), device="xla"))


optimizer = AdamW(model.parameters(), lr=1e-3)
# [/shown]

for step in range(STEPS):
    tpuprof.step(step)
    optimizer.zero_grad()
    loss = model(data).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()

print("result", loss.item())
