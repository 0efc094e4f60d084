"""Two of the captured steps get batches with row counts that were not there before: their programs compile anew."""

import torch
from on_torch_tpu import CLASSES, WARMUP, WIDTH, record, trainer

train = trainer()
# Captured steps with a row count of their own.
ODD = {WARMUP + 1: 33, WARMUP + 4: 34}


def step(number: int) -> None:
    rows = ODD.get(number, 32)
    loss = train(torch.randn(rows, WIDTH).to("tpu"), torch.randint(0, CLASSES, (rows,)).to("tpu"))
    # The host would run ahead of its compiles, out of the step that they are for.
    loss.item()


record(step)
