"""What Python does with the shapes is done outside of the compiled function, which is whole."""

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
    hidden = two(hidden).relu()
    hidden = three(hidden).relu()
    hidden = four(hidden).relu()
    hidden = five(hidden).relu()
    hidden = six(hidden).relu()
    hidden = seven(hidden).relu()
    return eight(hidden)


def step(_: int) -> None:
    for _layer in model:
        seen_by_python(inputs.shape)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(forward(inputs), classes)
    loss.backward()
    optimizer.step()


run(step, steps=200)
