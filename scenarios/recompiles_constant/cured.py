"""The window's width is a tensor: an input of one graph."""

import torch
from common import run
from windowed import LENGTH, batch, train

positions = torch.arange(LENGTH).to(batch.device)
distance = positions[None, :] - positions[:, None]


def step(number: int) -> None:
    width = torch.tensor(2 + number).to(batch.device)
    train((distance >= width).float())


run(step, steps=8)
