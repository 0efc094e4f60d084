"""No sync in the loop: reading the loss runs all that leads to it, and the weights are never computed for good."""

import torch
import torch_xla

WIDTH, BATCH, STEPS = 64, 32, 20

torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH)).to(
    device
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.randn(BATCH, WIDTH).to(device)
total = 0.0

for _ in range(STEPS):
    # [shown]
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    total += loss.item()
    # [/shown]

print("result", total)
