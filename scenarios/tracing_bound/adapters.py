"""A decoder with many small adapters, each kept near an orthogonal matrix by a penalty."""

from collections.abc import Callable

import torch
import torch_xla
from common import Shape, decoder, next_token_loss, run, tokens
from torch import Tensor

ADAPTERS, WIDTH = 40, 16


def penalty_of(adapter: Tensor) -> Tensor:
    """How far [..., width, width] matrices are from orthogonal, summed."""
    return (adapter @ adapter.transpose(-1, -2) - torch.eye(WIDTH, device=adapter.device)).square().sum()


def train(penalty: Callable[[Tensor], Tensor]) -> None:
    """Train with that penalty on adapters [adapters, width, width]."""
    model = decoder(Shape(layers=1, width=128))
    adapters = torch.nn.Parameter(torch.randn(ADAPTERS, WIDTH, WIDTH).to(torch_xla.device()))
    optimizer = torch.optim.SGD([*model.parameters(), adapters], lr=1e-3)
    batch = tokens(20, 65)

    def step(_: int) -> Tensor:
        optimizer.zero_grad()
        loss = next_token_loss(model, batch) + 1e-6 * penalty(adapters)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        return loss

    run(step)
