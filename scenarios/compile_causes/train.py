"""Trains a small model that recompiles for the reasons named on the command line, each once in the captured steps.

    python train.py shape            one of the eight reasons
    python train.py dtype constant sharding

The line that makes a graph differ carries the comment `recompiles: REASON`; the tests look it up.
"""

import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")
REASONS = sys.argv[1:]
if "sharding" in REASONS:
    os.environ["CPU_NUM_DEVICES"] = "4"

import torch
import torch_xla
from torch import nn

import tpuprof

# By this step training has been steady for long enough; each reason comes a few steps after the one before.
FIRST = 12
APART = 3
AT = {reason: FIRST + APART * place for place, reason in enumerate(REASONS)}
STEPS = FIRST + APART * len(REASONS) + 2

if "sharding" in REASONS:
    import numpy as np
    import torch_xla.distributed.spmd as xs
    import torch_xla.runtime as xr

    xr.use_spmd()
    mesh = xs.Mesh(np.arange(4), (4,), ("data",))

device = torch_xla.device()
torch.manual_seed(0)


class Model(nn.Module):
    """Two linear layers with dropout between them."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.up(x))
        if self.training:
            hidden = hidden * (torch.rand_like(hidden) < 0.9)  # recompiles: eval
        return self.down(hidden)


model = Model().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def batch(step: int) -> torch.Tensor:
    rows, width = 8, 24
    if step == AT.get("last_batch"):
        rows = 5
    if step == AT.get("shape"):
        width = 32
    values = torch.ones(rows, width)
    if step == AT.get("dtype"):
        values = values.to(torch.bfloat16)
    return values.to(device)


def train(step: int) -> None:
    optimizer.zero_grad()
    data = batch(step)
    if step == AT.get("sharding"):
        xs.mark_sharding(data, mesh, ("data", None))
    features = data[:, :16].float()  # recompiles: shape, last_batch, dtype, sharding
    bound = 3 if step == AT.get("constant") else 1
    features = features + data[:, bound : bound + 16].float()  # recompiles: constant
    loss = model(features).square().mean()
    if step == AT.get("op"):
        loss = loss + torch.exp(features).mean()  # recompiles: op
    loss.backward()
    if step == AT.get("parameters"):
        model.up.weight.grad = None
    optimizer.step()  # recompiles: parameters
    torch_xla.sync()


def evaluate(step: int) -> torch.Tensor:
    model.eval()
    with torch.no_grad():
        result = model(batch(step)[:, :16])
    torch_xla.sync()
    model.train()
    return result


for step in range(STEPS):
    tpuprof.step(step)
    if step == AT.get("eval"):
        evaluate(step)
    else:
        train(step)
