"""A deep compiled model, trained for a few steps: what counts is how long its start takes."""

from __future__ import annotations

import torch
from training import CLASSES, batch, run

WIDTH, DEPTH = 64, 144


class Block(torch.nn.Module):
    """A residual block of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Add what the two layers make of it."""
        normal = torch.nn.functional.layer_norm(hidden, (WIDTH,))
        return hidden + self.down(torch.nn.functional.gelu(self.up(normal)))


def train() -> None:
    """Train the compiled model."""
    torch.manual_seed(0)
    blocks = [Block() for _ in range(DEPTH)]
    model = torch.compile(torch.nn.Sequential(*blocks, torch.nn.Linear(WIDTH, CLASSES)).to("tpu"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, classes = batch(32, WIDTH)

    def step(_: int) -> None:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), classes)
        loss.backward()
        optimizer.step()

    run(step, steps=40)
