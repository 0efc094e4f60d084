"""Layer dropout as data: every layer is computed and weighted with 0 or 1."""

import torch
from common import Shape, Trainer, decoder, run, tokens


def weighted_layers(layers, x):
    for position, layer in enumerate(layers):
        x = x + keep[position] * (layer(x) - x)
    return x


train = Trainer(decoder(Shape(layers=6, width=64), run_layers=weighted_layers))
batch = tokens(32, 49)


def step(number: int) -> None:
    global keep
    keep = torch.tensor([float((8 + number) >> position & 1) for position in range(6)]).to(batch.device)
    train(batch)


run(step, steps=8)
