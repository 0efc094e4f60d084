"""The gradient-clipping limit follows a schedule in Python: each value is a constant of a new graph."""

import torch
import torch_xla
from common import Shape, decoder, run, tokens

from tpuprof.demo.decoder import next_token_loss

model = decoder(Shape(layers=2, width=64))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batch = tokens(32, 65)


def step(number: int) -> None:
    limit = 1.0 / (number + 1)
    optimizer.zero_grad()
    loss = next_token_loss(model, batch)
    loss.backward()
    for parameter in model.parameters():
        limits = torch.full_like(parameter.grad, limit)
        parameter.grad = torch.where(parameter.grad.abs() > limit, limits, parameter.grad)
    optimizer.step()
    torch_xla.sync()


run(step, steps=12)
