"""The layers folded by scan_layers: one of them is compiled."""

from functools import partial

from starting import start
from torch_xla.experimental.scan_layers import scan_layers

start(partial(scan_layers, is_layer_pure=True))
