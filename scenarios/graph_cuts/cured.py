"""The same work cut once, at the end of the step."""

import torch
import torch_xla
from common import Shape, decoder, run, tokens

from tpuprof.demo.decoder import next_token_loss

MICRO = 8
model = decoder(Shape(layers=2, width=64))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batches = [tokens(1, 17) for _ in range(MICRO)]
outputs = []


def step(_: int) -> None:
    optimizer.zero_grad()
    outputs.clear()
    for batch in batches:
        with torch.no_grad():
            hidden = model.embed(batch[:, :-1])
            for layer in model.layers:
                hidden = layer(hidden)
            outputs.append(model.head(model.norm(hidden)))
    loss = next_token_loss(model, batches[0])
    loss.backward()
    optimizer.step()
    torch_xla.sync()


run(step)
