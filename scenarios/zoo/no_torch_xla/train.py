import time

import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(128, 64)
began = time.perf_counter()
for step in range(50):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
print("loss", loss.item())
print(f"{(time.perf_counter() - began) / 50 * 1e3:.2f} ms per step")
