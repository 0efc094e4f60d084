import os
import time

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
net = nn.Sequential(nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 1)).to(device)
opt = torch.optim.Adam(net.parameters())
activations = os.urandom(24 << 20)


def dump(step):
    with open(f"activations-{step % 2}.bin", "wb") as out:
        out.write(activations)
        out.flush()
        os.fsync(out.fileno())


stamps = []
for step in range(40):
    x = torch.randn(64, 128, device=device)
    opt.zero_grad()
    loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
    loss.backward()
    opt.step()
    torch_xla.sync()
    dump(step)
    stamps.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - stamps[4]) / 35 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(stamps, stamps[1:])))
