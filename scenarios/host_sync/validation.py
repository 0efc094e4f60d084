"""The loop both scripts run: the loss of one batch a step, without training.

Nothing is donated, so that only a read makes the host wait: PJRT's CPU client holds a graph cut up until the program
has run where it takes over the buffers of parameters that change.
"""

import torch
import torch_xla
from common import Shape, decoder, next_token_loss, tokens

model = decoder(Shape(layers=12, width=64))
batch = tokens(16, 65)


def validate() -> torch.Tensor:
    """The loss of the batch, unread."""
    with torch.no_grad():
        loss = next_token_loss(model, batch)
    torch_xla.sync()
    return loss
