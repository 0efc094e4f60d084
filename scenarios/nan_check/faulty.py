"""Every step asks whether the loss is still a number before it goes on: a read by way of `if`."""

import torch
from common import Shape, Trainer, decoder, run, tokens

train = Trainer(decoder(Shape(layers=6, width=96)))
batch = tokens(16, 49)


def step(_: int) -> None:
    if not torch.isfinite(train(batch)):
        raise SystemExit("the loss is no number any more")


run(step)
