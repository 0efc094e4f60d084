"""A sort of all scores finds the few largest ones."""

import sys

import torch
import torch_xla

WIDTH, CLASSES, KEPT, STEPS = 1024, 4096, 8, 30
BATCH = int(sys.argv[1]) if len(sys.argv) > 1 else 64

torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.Linear(WIDTH, CLASSES).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.randn(BATCH, WIDTH).to(device)

for _ in range(STEPS):
    optimizer.zero_grad()
    scores = model(batch)
    # [shown]
    best = torch.sort(scores, dim=1, descending=True)[0][:, :KEPT]
    # [/shown]
    loss = (1 - best).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()

print("result", loss.item())
