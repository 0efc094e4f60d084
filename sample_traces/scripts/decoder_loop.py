"""A healthy loop over a model so small that building the graph takes longer than running it."""

from common import decoder, random_tokens, record, trainer

from tpuprof.demo.decoder import Shape

train = trainer(decoder(Shape(layers=3, width=64)))
record(lambda _: train(random_tokens(4, 33)))
