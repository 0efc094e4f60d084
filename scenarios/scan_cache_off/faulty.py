"""scan_layers does not know that layers are pure, so it traces the layer again in every step."""

from common import Shape, Trainer, decoder, run, tokens
from torch_xla.experimental.scan_layers import scan_layers

train = Trainer(decoder(Shape(layers=4, width=64), run_layers=scan_layers))
batch = tokens(16, 33)
run(lambda _: train(batch), steps=20)
