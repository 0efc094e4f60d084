import time

import torch
import torch.nn as nn
import torch_xla


class Denoiser(nn.Module):
    def __init__(self, channels=24):
        super().__init__()
        self.time = nn.Embedding(100, channels)
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.middle = nn.Sequential(
            nn.GroupNorm(4, channels), nn.SiLU(), nn.Conv2d(channels, channels, 3, padding=1)
        )
        self.last = nn.Conv2d(channels, 3, 3, padding=1)

    def forward(self, x, t):
        h = self.first(x) + self.time(t)[:, :, None, None]
        return self.last(h + self.middle(h))


torch.manual_seed(0)
device = torch_xla.device()
model = Denoiser().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
alphas = torch.linspace(0.99, 0.01, 100).to(device)
images = torch.randn(32, 3, 32, 32).to(device)
marks = []
for step in range(25):
    t = torch.randint(0, 100, (len(images),), device=device)
    noise = torch.randn_like(images)
    a = alphas[t][:, None, None, None]
    loss = (model(a.sqrt() * images + (1 - a).sqrt() * noise, t) - noise).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[4]) / 20 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
