import time

import numpy as np
import torch
import torch.nn as nn
import torch_xla.core.xla_model as xm

rng = np.random.default_rng(0)


def make_batch(size=64):
    images = rng.normal(size=(size, 3, 64, 64))
    images = (images - images.mean()) / images.std()
    return images.astype(np.float32), rng.integers(0, 10, size)


device = xm.xla_device()
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 4, 5, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 15 * 15, 10)).to(
    device
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
times = []
for i in range(45):
    images, labels = make_batch()
    images = torch.from_numpy(images).to(device)
    labels = torch.from_numpy(labels).to(device)
    optimizer.zero_grad()
    loss = criterion(model(images), labels)
    loss.backward()
    xm.optimizer_step(optimizer, barrier=True)
    times.append(time.perf_counter())
print("final loss", loss.item())
print(f"{(time.perf_counter() - times[4]) / 40 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(times, times[1:])))
