"""Between the layers Python runs that dynamo cannot trace: the graph breaks there."""

import torch
from layers import blocks, seen_by_python
from training import batch, run

WIDTH = 64
one, two, three, four, five, six, seven, eight = model = blocks(WIDTH)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, classes = batch(32, WIDTH)


@torch.compile
def forward(hidden: torch.Tensor) -> torch.Tensor:
    hidden = one(hidden).relu()
    seen_by_python(hidden.shape)
    hidden = two(hidden).relu()
    seen_by_python(hidden.shape)
    hidden = three(hidden).relu()
    seen_by_python(hidden.shape)
    hidden = four(hidden).relu()
    seen_by_python(hidden.shape)
    hidden = five(hidden).relu()
    seen_by_python(hidden.shape)
    hidden = six(hidden).relu()
    seen_by_python(hidden.shape)
    hidden = seven(hidden).relu()
    seen_by_python(hidden.shape)
    return eight(hidden)


def step(_: int) -> None:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(forward(inputs), classes)
    loss.backward()
    optimizer.step()


run(step, steps=200)
