"""A loop with nothing wrong: the device has work for longer than the host needs to trace the next step."""

from common import Shape, Trainer, decoder, run, tokens

train = Trainer(decoder(Shape(layers=1, width=128)))
batch = tokens(64, 65)
run(lambda _: train(batch))
