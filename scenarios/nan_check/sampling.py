"""The loop both scripts run: each step writes the tokens that the next one reads, as in sampling text.

Nothing is donated, so that only a read makes the host wait: PJRT's CPU client holds a graph cut up until the program
has run where it takes over the buffers of parameters that change.
"""

import torch
from common import Shape, decoder, tokens

model = decoder(Shape(layers=12, width=64))
text = tokens(16, 64)


def logits() -> torch.Tensor:
    """The logits of the next tokens, which become the text; traced and not yet handed over."""
    global text
    with torch.no_grad():
        found = model(text)
        text = found.argmax(-1)
    return found
