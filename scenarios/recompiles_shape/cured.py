"""Batches are padded to one length."""

from common import WARMUP, Shape, Trainer, decoder, run, tokens

STEPS = 8
train = Trainer(decoder(Shape(layers=1, width=128)))
batches = [tokens(64, 52) for number in range(WARMUP + STEPS)]
run(lambda number: train(batches[number]), steps=STEPS)
