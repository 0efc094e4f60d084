"""The decoder loop, but the seventh batch is longer than all before: one new graph, one compile in that step."""

from common import WARMUP, decoder, random_tokens, record, trainer

from tpuprof.demo.decoder import Shape

LONGER_AT = WARMUP + 3

train = trainer(decoder(Shape(layers=1, width=64)))
record(lambda step: train(random_tokens(4, 41 if step == LONGER_AT else 33)))
