"""The loop both scripts run: each step writes the tokens that the next one reads, and counts which it has read.

Nothing is donated, so that only the fallback makes the host wait: PJRT's CPU client holds a graph cut up until the
program has run where it takes over the buffers of parameters that change. And what is counted is there before the
step: of a value that the same step makes, a fallback would have the device compute part of the step twice.
"""

from collections.abc import Callable

import torch
import torch_xla
from common import Shape, decoder, run, tokens
from torch import Tensor

VOCABULARY, BINS = 256, 16


def write(count: Callable[[Tensor], Tensor]) -> None:
    """Write text, and keep the counts of tokens, as floats [...], in bins."""
    model = decoder(Shape(layers=12, width=64))
    text = tokens(12, 64)
    counts = []

    def step(_: int) -> Tensor:
        nonlocal text
        counts.append(count(text.float()))
        with torch.no_grad():
            text = model(text).argmax(-1)
        torch_xla.sync()
        return text

    run(step)
