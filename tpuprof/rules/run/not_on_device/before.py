"""The device is chosen as for a GPU: without one the model trains on the host's CPU."""

import torch
import torch_xla

WIDTH, BATCH, STEPS = 64, 32, 20

torch.manual_seed(0)
# [shown]
device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH)).to(
    device
)
# [/shown]
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.randn(BATCH, WIDTH).to(device)
total = 0.0

for _ in range(STEPS):
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    total += loss.item()

print("result", total)
