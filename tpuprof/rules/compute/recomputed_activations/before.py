"""Each block keeps its input alone, and runs again for its gradients, though memory has room for its activations."""

import sys

import torch
import torch_xla
from torch_xla.utils.checkpoint import checkpoint

WIDTH, DEPTH, STEPS = 1024, 8, 3
BATCH = int(sys.argv[1]) if len(sys.argv) > 1 else 4096

torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.ModuleList(
    [
        torch.nn.Sequential(
            torch.nn.LayerNorm(WIDTH),
            torch.nn.Linear(WIDTH, 4 * WIDTH),
            torch.nn.GELU(),
            torch.nn.Linear(4 * WIDTH, WIDTH),
        )
        for _ in range(DEPTH)
    ]
).to(device, torch.bfloat16)
first = torch.nn.Linear(WIDTH, WIDTH).to(device, torch.bfloat16)
optimizer = torch.optim.SGD([*first.parameters(), *model.parameters()], lr=0.01)
batch = torch.ones(BATCH, WIDTH).to(device, torch.bfloat16)

for _ in range(STEPS):
    optimizer.zero_grad()
    x = first(batch)
    # [shown]
    for block in model:
        x = x + checkpoint(block, x)
    # [/shown]
    loss = x.float().square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()

print("result", loss.item())
