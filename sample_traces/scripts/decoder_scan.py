"""The decoder loop with its layers folded by scan_layers, whose trace cache is off: it re-traces every step."""

from common import decoder, random_tokens, record, trainer
from torch_xla.experimental.scan_layers import scan_layers

from tpuprof.demo.decoder import Shape

train = trainer(decoder(Shape(layers=4, width=64), run_layers=scan_layers))
record(lambda _: train(random_tokens(4, 33)))
