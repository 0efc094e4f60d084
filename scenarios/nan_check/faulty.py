"""Every step asks whether the loss is still a number before it goes on: a read by way of `if`."""

import torch
import torch_xla
from common import run
from validation import loss_of_batch


def step(_: int) -> None:
    loss = loss_of_batch()
    torch_xla.sync()
    if not torch.isfinite(loss):
        raise SystemExit("the loss is no number any more")


run(step)
