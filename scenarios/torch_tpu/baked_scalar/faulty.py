"""The label smoothing changes in each step, and its value is part of the compiled program."""

import torch
from training import batch, mlp, run

model = mlp(width=64, depth=2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, classes = batch(32, 64)


def step(number: int) -> None:
    smoothing = 0.1 * 0.99**number
    optimizer.zero_grad()
    logits = model(inputs)
    loss = torch.nn.functional.cross_entropy(logits, classes, label_smoothing=smoothing)
    loss.backward()
    optimizer.step()
    if number % 4 == 3:
        loss.item()  # for a log


run(step, steps=40)
