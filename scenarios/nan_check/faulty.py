"""Every step asks whether the logits are still numbers before it goes on: a read by way of `if`."""

import torch
import torch_xla
from common import run
from sampling import logits


def step(_: int) -> None:
    fine = torch.isfinite(logits()).all()
    torch_xla.sync()
    if not fine:
        raise SystemExit("the logits are not numbers any more")


run(step)
