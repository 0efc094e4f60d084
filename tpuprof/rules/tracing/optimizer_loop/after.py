"""All parameters are views of one, which AdamW updates at once."""

import torch
import torch_xla

import tpuprof

WIDTH, DEPTH, BATCH, STEPS = 16, 16, 8, 40

torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH)]).to(device)
data = torch.randn(BATCH, WIDTH).to(device)
# [shown]
weights = dict(model.named_parameters())
sizes = [each.numel() for each in weights.values()]
shapes = [each.shape for each in weights.values()]
flat = torch.nn.Parameter(torch.cat([each.detach().flatten() for each in weights.values()]))
optimizer = torch.optim.AdamW([flat], lr=1e-3)


def views():
    return {
        name: part.view(shape) for name, part, shape in zip(weights, flat.split(sizes), shapes, strict=True)
    }


# [/shown]
torch_xla.sync()

for step in range(STEPS):
    tpuprof.step(step)
    optimizer.zero_grad()
    # [shown]
    loss = torch.func.functional_call(model, views(), (data,)).square().mean()
    # [/shown]
    loss.backward()
    optimizer.step()
    torch_xla.sync()

print("result", loss.item())
