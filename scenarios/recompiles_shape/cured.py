"""Batches are padded to one length."""

from common import Shape, Trainer, decoder, run, tokens

train = Trainer(decoder(Shape(layers=1, width=64)))
run(lambda _: train(tokens(40, 57)), steps=8)
