"""Autocast multiplies bfloat16; the weights that the optimizer updates stay float32."""

import sys

import torch
import torch_xla

WIDTH, STEPS = 1024, 4
BATCH = int(sys.argv[1]) if len(sys.argv) > 1 else 4096

torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.Sequential(
    torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.ReLU(), torch.nn.Linear(4 * WIDTH, WIDTH)
)
model = model.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.randn(BATCH, WIDTH).to(device)

for _ in range(STEPS):
    optimizer.zero_grad()
    # [shown]
    with torch.autocast("xla", dtype=torch.bfloat16):
        loss = model(batch).square().mean()
    # [/shown]
    loss.backward()
    optimizer.step()
    torch_xla.sync()

print("result", loss.item())
