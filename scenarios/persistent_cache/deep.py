"""The model both scripts train: deep enough that its compile keeps training waiting."""

from common import Shape, Trainer, decoder, run, tokens


def train_briefly() -> None:
    """Compile, and train a few steps."""
    train = Trainer(decoder(Shape(layers=52, width=64)))
    batch = tokens(28, 33)
    run(lambda _: train(batch), steps=12)
