"""The batch is cast to float32, as the model is."""

import numpy as np
import torch
import torch_xla

WIDTH, BATCH, STEPS = 256, 512, 60

torch.manual_seed(0)
rng = np.random.default_rng(0)
device = torch_xla.device()
model = torch.nn.Sequential(
    torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH)
)
# [shown]
model = model.to(device)
# [/shown]
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

for _ in range(STEPS):
    optimizer.zero_grad()
    # [shown]
    batch = torch.from_numpy(rng.normal(size=(BATCH, WIDTH))).float().to(device)
    # [/shown]
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()

print("result", loss.item())
