"""The model both scripts train: deep enough that its compile keeps training waiting."""

from common import Shape, Trainer, decoder, run, tokens


def train_briefly() -> None:
    """Compile, and train a few steps."""
    train = Trainer(decoder(Shape(layers=44, width=64)))
    batch = tokens(144, 33)
    run(lambda _: train(batch), steps=5, warmup=2)
