"""Each step reads the loss, so the host waits for the device before it calls the next op."""

import torch
from training import batch, mlp, run

model = mlp(width=512, depth=6)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, classes = batch(64, 512)
total = 0.0


def step(_: int) -> None:
    global total
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(inputs), classes)
    loss.backward()
    optimizer.step()
    total += loss.item()


run(step, steps=100)
