"""Batches are padded to their own longest sequence, so every batch has another length."""

from common import WARMUP, Shape, Trainer, decoder, run, tokens

STEPS = 8
train = Trainer(decoder(Shape(layers=1, width=128)))
# On the device beforehand: one thread there would hold the host up until it has run the step before.
batches = [tokens(64, 41 + number) for number in range(WARMUP + STEPS)]
run(lambda number: train(batches[number]), steps=STEPS)
