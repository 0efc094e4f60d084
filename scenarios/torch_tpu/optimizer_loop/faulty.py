"""AdamW updates each parameter with ops of its own."""

import torch
from training import batch, mlp, run

model = mlp(width=64, depth=8)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
inputs, classes = batch(32, 64)


def step(_: int) -> None:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(inputs), classes)
    loss.backward()
    optimizer.step()


run(step, steps=100)
