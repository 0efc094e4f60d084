"""The gradient-clipping limit is a tensor: an input of one graph."""

import torch
import torch_xla
from common import Shape, decoder, run, tokens

from tpuprof.demo.decoder import next_token_loss

model = decoder(Shape(layers=2, width=64))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batch = tokens(32, 65)


def step(number: int) -> None:
    limit = torch.tensor(1.0 / (number + 1)).to(batch.device)
    optimizer.zero_grad()
    loss = next_token_loss(model, batch)
    loss.backward()
    for parameter in model.parameters():
        parameter.grad = torch.where(parameter.grad.abs() > limit, limit, parameter.grad)
    optimizer.step()
    torch_xla.sync()


run(step, steps=12)
