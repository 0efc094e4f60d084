"""scan_layers knows that layers are pure, and keeps what it traced."""

from functools import partial

from common import Shape, Trainer, decoder, run, tokens
from torch_xla.experimental.scan_layers import scan_layers

train = Trainer(decoder(Shape(layers=4, width=64), run_layers=partial(scan_layers, is_layer_pure=True)))
batch = tokens(16, 33)
run(lambda _: train(batch), steps=20)
