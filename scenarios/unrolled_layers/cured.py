"""The layers folded by scan_layers, with its cache on."""

from functools import partial

from cells import train
from torch_xla.experimental.scan_layers import scan_layers

train(partial(scan_layers, is_layer_pure=True))
