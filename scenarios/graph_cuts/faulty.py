"""Statistics of each gradient are computed in graphs of their own."""

import torch_xla
from common import Shape, Trainer, decoder, run, tokens
from statistics_of import STATISTICS

train = Trainer(decoder(Shape(layers=1, width=32, heads=2)))
batch = tokens(2, 17)
found = []


def step(_: int) -> None:
    train(batch)
    found.clear()
    for parameter in train.model.parameters():
        for statistic in STATISTICS:
            found.append(statistic(parameter.grad))
            torch_xla.sync()


run(step)
