"""Each batch has another number of rows, so every op of the step is compiled again."""

import torch
from training import CLASSES, mlp, run

WIDTH = 32
model = mlp(WIDTH, depth=2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def step(number: int) -> None:
    rows = 8 + number
    inputs, classes = torch.randn(rows, WIDTH), torch.randint(0, CLASSES, (rows,))
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(inputs.to("tpu")), classes.to("tpu"))
    loss.backward()
    optimizer.step()
    if number % 4 == 3:
        loss.item()  # for a log


run(step, steps=16)
