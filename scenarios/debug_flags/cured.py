"""The same without the flags."""

from common import Shape, Trainer, decoder, run, tokens

train = Trainer(decoder(Shape(layers=8, width=64)))
batch = tokens(16, 33)
run(lambda _: train(batch))
