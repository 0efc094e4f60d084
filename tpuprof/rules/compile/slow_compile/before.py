"""A Python loop over many layers: each is compiled on its own."""

import torch
import torch_xla

import tpuprof

WIDTH, DEPTH, ROUNDS, BATCH, STEPS = 128, 36, 8, 128, 12


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.up = torch.nn.Linear(WIDTH, WIDTH)
        self.down = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        for _ in range(ROUNDS):
            x = x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))
        return x


torch.manual_seed(0)
device = torch_xla.device()
layers = torch.nn.ModuleList([Layer() for _ in range(DEPTH)]).to(device)
optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)
batch = torch.randn(BATCH, WIDTH).to(device)

for step in range(STEPS):
    tpuprof.step(step)
    optimizer.zero_grad()
    x = batch
    # [shown]
    for layer in layers:
        x = layer(x)
    # [/shown]
    loss = x.square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()

print("result", loss.item())
