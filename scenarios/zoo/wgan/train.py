import time

import torch
import torch.nn as nn
import torch_xla

n_critic = 4
torch.manual_seed(0)
device = torch_xla.device()
generator = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 784)).to(device)
critic = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 1)).to(device)
opt_g = torch.optim.RMSprop(generator.parameters(), lr=5e-5)
opt_c = torch.optim.RMSprop(critic.parameters(), lr=5e-5)
real = torch.randn(1536, 784).to(device)
marks = []
for step in range(30):
    for _ in range(n_critic):
        opt_c.zero_grad()
        fake = generator(torch.randn(1536, 32, device=device)).detach()
        loss_c = critic(fake).mean() - critic(real).mean()
        loss_c.backward()
        opt_c.step()
        for p in critic.parameters():
            p.data.clamp_(-0.01, 0.01)
        torch_xla.sync()
    opt_g.zero_grad()
    loss_g = -critic(generator(torch.randn(1536, 32, device=device))).mean()
    loss_g.backward()
    opt_g.step()
    torch_xla.sync()
    marks.append(time.perf_counter())
print("losses", loss_c.item(), loss_g.item())
print(f"{(time.perf_counter() - marks[4]) / 25 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
