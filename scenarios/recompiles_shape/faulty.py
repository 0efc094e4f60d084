"""Batches are padded to their own longest sequence, so every batch has another length."""

from common import Shape, Trainer, decoder, run, tokens

train = Trainer(decoder(Shape(layers=1, width=64)))
run(lambda number: train(tokens(40, 41 + number)), steps=8)
