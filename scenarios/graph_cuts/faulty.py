"""The norm of each gradient is computed in a graph of its own."""

import torch_xla
from common import Shape, Trainer, decoder, run, tokens

train = Trainer(decoder(Shape(layers=4, width=32, heads=2)))
batch = tokens(2, 17)
norms = []


def step(_: int) -> None:
    train(batch)
    norms.clear()
    for parameter in train.model.parameters():
        norms.append(parameter.grad.norm())
        torch_xla.sync()


run(step)
