import time

import torch
import torch.nn as nn
import torch_xla
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        for i in range(40):
            time.sleep(0.08)
            yield torch.full((32, 64), i / 40)


torch.manual_seed(0)
device = torch_xla.device()
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64)).to(device)
optimizer = torch.optim.Adam(model.parameters())
ends = []
for x in DataLoader(Stream(), batch_size=None):
    x = x.to(device)
    optimizer.zero_grad()
    loss = (model(x) - x).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    ends.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - ends[4]) / (len(ends) - 5) * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(ends, ends[1:])))
