"""A penalty on attention outside of a window that widens as training goes on."""

import torch
import torch_xla
from common import Shape, decoder, tokens

from tpuprof.demo.decoder import next_token_loss

LENGTH = 64
model = decoder(Shape(layers=1, width=128))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batch = tokens(64, LENGTH + 1)


def train(outside: torch.Tensor) -> None:
    """One step; `outside` is 1 where a position is outside the window: [length, length]."""
    optimizer.zero_grad()
    loss = next_token_loss(model, batch)
    hidden = model.embed(batch[:, :-1])
    reach = (hidden @ hidden.transpose(-1, -2)).square() * outside
    (loss + 1e-3 * reach.mean()).backward()
    optimizer.step()
    torch_xla.sync()
