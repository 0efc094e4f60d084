"""The answers are kept on the device and read at the end."""

import torch
from common import run
from sampling import sample

ends = []


def step(_: int) -> torch.Tensor:
    ends.append(sample())
    return ends[-1]


run(step)
