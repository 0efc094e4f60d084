"""torch.where keeps the branch on the device, and the graph whole."""

import torch
import torch_xla

import tpuprof

WIDTH, DEPTH, BATCH, STEPS = 64, 4, 16, 80

torch.manual_seed(0)
device = torch_xla.device()
batches = [torch.randn(BATCH, WIDTH).to(device) for _ in range(4)]


# [shown]
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, data):
        hidden = self.linear(data)
        hidden = torch.where(hidden.sum() > 0, hidden * 0.5, hidden)
        return torch.tanh(hidden)


model = torch.nn.Sequential(*[Layer() for _ in range(DEPTH)]).to(device).eval()
predict = torch.compile(model, backend="openxla")
# [/shown]
torch_xla.sync()
total = torch.zeros((), device=device)

with torch.no_grad():
    for step in range(STEPS):
        tpuprof.step(step)
        total += predict(batches[step % 4]).square().mean()
        torch_xla.sync()

print("result", total.item())
