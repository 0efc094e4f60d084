"""The training step both scripts run, called from as deep as trainer frameworks do."""

from common import Shape, Trainer, decoder, tokens

# Frames between a script and its forward pass in a trainer with callbacks, strategies and wrapped modules.
DEPTH = 60
train = Trainer(decoder(Shape(layers=8, width=64)))
batch = tokens(2, 9)


def nested(depth: int = DEPTH) -> object:
    """Train on the batch, that many calls deeper."""
    return nested(depth - 1) if depth else train(batch)
