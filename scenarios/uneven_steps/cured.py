"""The score is computed by another process."""

from common import Shape, Trainer, decoder, run, tokens

train = Trainer(decoder(Shape(layers=2, width=128)))
batch = tokens(32, 65)
run(lambda _: train(batch))
