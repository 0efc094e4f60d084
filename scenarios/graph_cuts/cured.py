"""The norms of all gradients are part of the step's one graph."""

import torch_xla
from common import Shape, Trainer, decoder, run, tokens

train = Trainer(decoder(Shape(layers=4, width=32, heads=2)))
batch = tokens(2, 17)
norms = []


def step(_: int) -> None:
    train(batch, cut=False)
    norms.clear()
    norms.extend(parameter.grad.norm() for parameter in train.model.parameters())
    torch_xla.sync()


run(step)
