"""A statistic of every step uses an op that XLA has no lowering for: it runs on the host."""

import torch
from common import Shape, Trainer, decoder, run, tokens

train = Trainer(decoder(Shape(layers=6, width=96)))
batch = tokens(24, 49)
weight = train.model.layers[0].up.weight
ranges = []


def step(_: int) -> None:
    train(batch, cut=False)
    ranges.append(torch.histc(weight.detach(), bins=16, min=-1.0, max=1.0))
    torch_xla.sync()


import torch_xla

run(step)
