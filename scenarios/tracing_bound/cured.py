"""The same model with its layers wrapped by assume_pure: traced once, then called as one computation."""

import torch
from common import Shape, Trainer, decoder, run, tokens
from torch_xla.experimental.assume_pure import PureModule


def pure_layers(_layers, x):
    return stack(x)


model = decoder(Shape(layers=10, width=32, heads=2), run_layers=pure_layers)
stack = PureModule(torch.nn.Sequential(*model.layers))
train = Trainer(model)
batch = tokens(24, 33)
run(lambda _: train(batch))
