"""The same statistic by ops that XLA lowers."""

import torch
import torch_xla
from common import Shape, Trainer, decoder, run, tokens

train = Trainer(decoder(Shape(layers=6, width=96)))
batch = tokens(24, 49)
weight = train.model.layers[0].up.weight
edges = torch.linspace(-1.0, 1.0, 17).to(batch.device)
ranges = []


def step(_: int) -> None:
    train(batch, cut=False)
    values = weight.detach().reshape(-1, 1)
    ranges.append(((values >= edges[:-1]) & (values < edges[1:])).float().sum(0))
    torch_xla.sync()


run(step)
