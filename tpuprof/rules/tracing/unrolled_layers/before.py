"""A Python loop over many layers: each is traced in every step."""

import torch
import torch_xla

import tpuprof

WIDTH, DEPTH, BATCH, STEPS = 256, 40, 128, 40


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.up = torch.nn.Linear(WIDTH, WIDTH)
        self.down = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer() for _ in range(DEPTH)])

    def forward(self, x):
        # [shown]
        for layer in self.layers:
            x = layer(x)
        # [/shown]
        return x


torch.manual_seed(0)
device = torch_xla.device()
model = Model().to(device)
tpuprof.annotate_modules(model)  # on CPU only names tell the layers of a program apart
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.randn(BATCH, WIDTH).to(device)

for step in range(STEPS):
    tpuprof.step(step)
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()

print("result", loss.item())
