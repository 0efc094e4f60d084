"""The score is computed by another process."""

from common import Shape, Trainer, decoder, run, tokens

train = Trainer(decoder(Shape(layers=1, width=128)))
batch = tokens(64, 65)
run(lambda _: train(batch))
