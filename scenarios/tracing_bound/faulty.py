"""A small model whose step takes longer to trace than to run."""

from common import Shape, Trainer, decoder, run, tokens

train = Trainer(decoder(Shape(layers=10, width=32, heads=2)))
batch = tokens(24, 33)
run(lambda _: train(batch))
