"""Every fourth step computes a score of generated text in plain Python, in the training thread."""

from common import Shape, Trainer, decoder, run, tokens

EVERY = 4
train = Trainer(decoder(Shape(layers=1, width=128)))
batch = tokens(64, 65)


def score() -> float:
    total = 0.0
    for position in range(6_000_000):
        total += position % 7
    return total


def step(number: int) -> None:
    train(batch)
    if number % EVERY == 0:
        score()


run(step)
