"""A stack of linear layers, trained for a few steps: what counts is how long its start takes."""

from __future__ import annotations

from itertools import pairwise

import torch
from training import CLASSES, batch, run


def train(widths: list[int]) -> None:
    """Train a model whose layers have these widths."""
    torch.manual_seed(0)
    layers = [layer for wide in pairwise(widths) for layer in (torch.nn.Linear(*wide), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(widths[-1], CLASSES)).to("tpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, classes = batch(32, widths[0])

    def step(_: int) -> None:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), classes)
        loss.backward()
        optimizer.step()

    run(step, steps=40)
