"""The statistics of all gradients are part of the step's one graph."""

import torch_xla
from common import Shape, Trainer, decoder, run, tokens
from statistics_of import STATISTICS

train = Trainer(decoder(Shape(layers=1, width=32, heads=2)))
batch = tokens(2, 17)
found = []


def step(_: int) -> None:
    train(batch, cut=False)
    found.clear()
    for parameter in train.model.parameters():
        found.extend(statistic(parameter.grad) for statistic in STATISTICS)
    torch_xla.sync()


run(step)
