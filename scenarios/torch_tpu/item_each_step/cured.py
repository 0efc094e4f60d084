"""Losses are added up on the device."""

import torch
from training import batch, mlp, run

model = mlp(width=512, depth=6)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, classes = batch(64, 512)
total = torch.zeros(()).to("tpu")


def step(_: int) -> None:
    global total
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(inputs), classes)
    loss.backward()
    optimizer.step()
    total += loss.detach()


run(step, steps=100)
