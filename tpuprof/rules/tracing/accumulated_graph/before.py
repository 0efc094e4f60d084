"""Gradients of all micro-batches are computed in one graph: the model stands in it once for each."""

import torch
import torch_xla

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
    return model(batch).square().mean() / PARTS


for step in range(STEPS):
    tpuprof.step(step)
    optimizer.zero_grad()
    # [shown]
    loss = 0
    for batch in data:
        part = train_step(batch)
        part.backward()
        loss = loss + part.detach()
    optimizer.step()
    torch_xla.sync()
    # [/shown]

print("result", loss.item())
