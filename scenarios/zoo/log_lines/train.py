import logging
import time

import torch
import torch.nn as nn
import torch_xla

logging.basicConfig(
    filename="train.log",
    level=logging.DEBUG,
    format="%(asctime)s %(name)s %(levelname)s %(message)s",
    force=True,  # torch_xla's import gives the root logger a handler
)
log = logging.getLogger("trainer")

torch.manual_seed(0)
device = torch_xla.device()
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
data = torch.randn(64, 32)
shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
marks = []
for step in range(50):
    x = data.to(device)
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    for row in range(3000):
        log.debug("step %d sample %d shapes %s", step, row, shapes)
    marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[4]) / 45 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
