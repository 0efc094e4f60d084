"""Eager mode stays on, and the step is compiled: it is one program."""

import torch
import torch_xla

import tpuprof

WIDTH, DEPTH, BATCH, STEPS = 64, 4, 16, 60

torch_xla.experimental.eager_mode(True)
torch.manual_seed(0)
device = torch_xla.device()
layers = [layer for _ in range(DEPTH) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
model = torch.nn.Sequential(*layers).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(BATCH, WIDTH).to(device)


# [shown]
def train_step(data):
    optimizer.zero_grad()
    loss = model(data).square().mean()
    loss.backward()
    optimizer.step()
    return loss


compiled_step = torch_xla.compile(train_step)
# [/shown]
for step in range(STEPS):
    tpuprof.step(step)
    # [shown]
    loss = compiled_step(data)
    # [/shown]

print("result", loss.item())
