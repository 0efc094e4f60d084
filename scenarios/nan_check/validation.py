"""The loop both scripts run: the loss of one batch a step, without training.

Nothing is donated, so that only a read makes the host wait: PJRT's CPU client holds a graph cut up until the program
has run where it takes over the buffers of parameters that change.
"""

import torch
from common import Shape, decoder, next_token_loss, tokens

model = decoder(Shape(layers=12, width=64))
batch = tokens(16, 65)


def loss_of_batch() -> torch.Tensor:
    """The loss of the batch, traced and not yet handed over."""
    with torch.no_grad():
        return next_token_loss(model, batch)
