"""Each sample is decoded when a batch asks for it, in the training thread."""

import torch
from samples import Decoded
from torch.utils.data import DataLoader
from training import mlp, run

model = mlp(width=256, depth=8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = iter(DataLoader(Decoded(), batch_size=32))


def step(_: int) -> None:
    inputs, classes = next(loader)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(inputs.to("tpu")), classes.to("tpu"))
    loss.backward()
    optimizer.step()


run(step)
