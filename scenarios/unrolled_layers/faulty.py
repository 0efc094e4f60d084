"""A Python loop over many small layers: each is traced in every step."""

from common import Shape, Trainer, decoder, run, tokens

train = Trainer(decoder(Shape(layers=40, width=32, heads=2)))
batch = tokens(2, 17)
run(lambda _: train(batch))
