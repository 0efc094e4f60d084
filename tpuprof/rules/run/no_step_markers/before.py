"""Steps of one to four micro batches, each a graph: nothing says where a step begins."""

import random

import torch
import torch_xla

WIDTH, BATCH, STEPS = 512, 128, 40

torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(2)]).to(device)
data = torch.randn(4, BATCH, WIDTH).to(device)
sizes = random.Random(0)


def update(parameters):
    with torch.no_grad():
        for each in parameters:
            each -= 0.01 * each.grad
            each.grad = None


# [shown]
for _ in range(STEPS):
    for part in data[: sizes.randint(1, 4)]:
        loss = model(part).square().mean()
        loss.backward()
        torch_xla.sync()  # the number of graphs differs from step to step
    update(model.parameters())  # its own update: no optimizer marks the step
    torch_xla.sync()
# [/shown]

print("result", loss.item())
