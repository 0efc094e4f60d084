"""dynamo captures the graph once; later batches check guards and run it."""

import torch
import torch_xla

import tpuprof

WIDTH, DEPTH, ROUNDS, BATCH, STEPS = 32, 6, 3, 16, 60


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH)])

    def forward(self, x):
        for layer in self.layers:
            for _ in range(ROUNDS):
                y = layer(x)
                x = x + torch.tanh(y - y.mean(-1, keepdim=True)) * torch.sigmoid(y)
        return x


torch.manual_seed(0)
device = torch_xla.device()
# [shown]
model = torch.compile(Model().to(device).eval(), backend="openxla")
# [/shown]
x = torch.randn(BATCH, WIDTH).to(device)

with torch.no_grad():
    for step in range(STEPS):
        tpuprof.step(step)
        y = model(x)
        torch_xla.sync()

print("result", y.mean().item())
