import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(16, 32).to(device)
for step in range(40):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    print("step", step)
    if step == 7:
        raise ValueError("the loss is not what it was")
