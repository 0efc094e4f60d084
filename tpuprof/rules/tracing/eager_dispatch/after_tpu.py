"""torch.compile makes one program of the model and its loss."""

import torch
import torch_tpu  # noqa: F401  # the "tpu" device

import tpuprof

WIDTH, DEPTH, BATCH, STEPS = 64, 4, 16, 60

torch.manual_seed(0)
layers = [layer for _ in range(DEPTH) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
model = torch.nn.Sequential(*layers).to("tpu")


# [shown]
@torch.compile
def loss_of(data):
    return model(data).square().mean()


# [/shown]
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(BATCH, WIDTH).to("tpu")

for step in range(STEPS):
    tpuprof.step(step)
    optimizer.zero_grad()
    # [shown]
    loss = loss_of(data)
    # [/shown]
    loss.backward()
    optimizer.step()
    if step % 4 == 3:
        loss.item()  # for a log: without a read the host runs far ahead

print("result", loss.item())
