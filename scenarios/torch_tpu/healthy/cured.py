"""Nothing is wrong: the model is compiled, its programs are large, and no value is read in a step."""

import torch
from training import batch, mlp, run

model = torch.compile(mlp(width=1024, depth=4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, classes = batch(256, 1024)


def step(_: int) -> None:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(inputs), classes)
    loss.backward()
    optimizer.step()


run(step)
