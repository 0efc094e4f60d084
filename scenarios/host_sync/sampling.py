"""The loop both scripts run: each step writes the tokens that the next one reads, as in sampling text.

Nothing is donated, so that only a read makes the host wait: PJRT's CPU client holds a graph cut up until the program
has run where it takes over the buffers of parameters that change.
"""

import torch
import torch_xla
from common import Shape, decoder, tokens

END = 0
model = decoder(Shape(layers=12, width=64))
text = tokens(16, 64)


def sample() -> torch.Tensor:
    """Write the next tokens; whether every text has ended, unread."""
    global text
    with torch.no_grad():
        text = model(text).argmax(-1)
        ended = (text == END).all()
    torch_xla.sync()
    return ended
