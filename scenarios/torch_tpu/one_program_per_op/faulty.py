"""Each op of the step is a program of its own, as TorchTPU runs ops by default."""

import torch
from training import batch, mlp, run

model = mlp(width=64, depth=8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, classes = batch(32, 64)


def step(_: int) -> None:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(inputs), classes)
    loss.backward()
    optimizer.step()


run(step, steps=200)
