"""An eager loop of small ops that reads the loss in each step."""

import torch
from on_torch_tpu import CLASSES, WIDTH, record, trainer

train = trainer()
inputs, classes = torch.randn(32, WIDTH).to("tpu"), torch.randint(0, CLASSES, (32,)).to("tpu")


def step(_: int) -> None:
    loss = train(inputs, classes)
    loss.item()


record(step)
