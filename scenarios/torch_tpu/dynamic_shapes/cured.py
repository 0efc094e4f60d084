"""Batches are padded to one number of rows; the loss leaves the padding out."""

import torch
from training import CLASSES, mlp, run

WIDTH, MOST, NO_CLASS = 32, 32, -100
model = mlp(WIDTH, depth=2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def step(number: int) -> None:
    rows = 8 + number
    inputs, classes = torch.zeros(MOST, WIDTH), torch.full((MOST,), NO_CLASS)
    inputs[:rows], classes[:rows] = torch.randn(rows, WIDTH), torch.randint(0, CLASSES, (rows,))
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(
        model(inputs.to("tpu")), classes.to("tpu"), ignore_index=NO_CLASS
    )
    loss.backward()
    optimizer.step()
    if number % 4 == 3:
        loss.item()  # for a log


run(step, steps=16)
