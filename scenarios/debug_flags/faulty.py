"""A debugging session's flags were left on: torch_xla collects Python frames at every op."""

import os

os.environ["XLA_IR_DEBUG"] = "1"
os.environ["XLA_HLO_DEBUG"] = "1"

from common import Shape, Trainer, decoder, run, tokens

train = Trainer(decoder(Shape(layers=8, width=64)))
batch = tokens(16, 33)
run(lambda _: train(batch))
