"""The loss is read in every step, so host and device take turns."""

from common import Shape, Trainer, decoder, run, tokens

train = Trainer(decoder(Shape(layers=8, width=64)))
batch = tokens(20, 65)
losses = []


def step(_: int) -> None:
    losses.append(train(batch).item())


run(step)
