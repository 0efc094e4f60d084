"""Which layers' outputs are scaled is data: every output is multiplied, by 0.5 or by 1."""

import torch
from common import WARMUP, Shape, Trainer, decoder, run, tokens

LAYERS, STEPS = 4, 8


def all_scaled(layers, x):
    for position, layer in enumerate(layers):
        x = scale[position] * layer(x)
    return x


def scales(number: int) -> torch.Tensor:
    return torch.tensor([0.5 if number >> position & 1 else 1.0 for position in range(LAYERS)])


train = Trainer(decoder(Shape(layers=LAYERS, width=128), run_layers=all_scaled))
batch = tokens(32, 49)
# On the device beforehand: one thread there would hold the host up until it has run the step before.
choices = [scales(number).to(batch.device) for number in range(WARMUP + STEPS)]


def step(number: int) -> None:
    global scale
    scale = choices[number]
    train(batch)


run(step, steps=STEPS)
