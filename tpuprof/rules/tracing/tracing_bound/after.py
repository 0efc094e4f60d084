"""The model is a pure function: it is traced once, and later steps reuse what was traced."""

import torch
import torch_xla
from torch_xla.experimental.assume_pure import assume_pure

import tpuprof

WIDTH, DEPTH, BATCH, STEPS = 160, 72, 128, 40

torch.manual_seed(0)
device = torch_xla.device()
# Small weights and a small rate: in a model whose loss grows, differences of rounding grow with it.
weights = [(torch.randn(WIDTH, WIDTH) / WIDTH).to(device).requires_grad_() for _ in range(2)]
optimizer = torch.optim.SGD(weights, lr=0.001)
batch = torch.randn(BATCH, WIDTH).to(device)


# [shown]
@assume_pure
def model(x, *weights):
    for layer in range(DEPTH):
        y = x @ weights[layer % len(weights)]
        x = x + torch.tanh(y - y.mean(-1, keepdim=True)) * torch.sigmoid(y)
    return x


# [/shown]


for step in range(STEPS):
    tpuprof.step(step)
    optimizer.zero_grad()
    loss = model(batch, *weights).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()

print("result", loss.item())
