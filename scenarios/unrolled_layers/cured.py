"""The layers folded by scan_layers, with its cache on."""

from functools import partial

from common import Shape, Trainer, decoder, run, tokens
from torch_xla.experimental.scan_layers import scan_layers

train = Trainer(
    decoder(Shape(layers=40, width=32, heads=2), run_layers=partial(scan_layers, is_layer_pure=True))
)
batch = tokens(2, 17)
run(lambda _: train(batch))
