"""Gradients of all micro-batches are summed in a loop on the device: the model stands in the graph once."""

import torch
import torch_xla
from torch_xla.experimental.gradient_accumulation import gradient_accumulation

import tpuprof

WIDTH, DEPTH, BATCH, PARTS, STEPS = 128, 2, 32, 8, 24

torch.manual_seed(0)
device = torch_xla.device()
layers = [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU()) for _ in range(DEPTH)]
model = torch.nn.Sequential(*layers).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(PARTS, BATCH, WIDTH).to(device)
torch_xla.sync()


def train_step(batch):
    return model(batch).square().mean()


for step in range(STEPS):
    tpuprof.step(step)
    optimizer.zero_grad()
    # [shown]
    # loops over the first dimension of the data; runs the backward pass; divides by the number of micro-batches
    loss = gradient_accumulation(train_step, (data,), model)
    optimizer.step()
    torch_xla.sync()
    # [/shown]

print("result", loss.item())
