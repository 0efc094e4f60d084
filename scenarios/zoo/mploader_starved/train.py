import time

import torch
import torch.nn as nn
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 40 * 16

    def __getitem__(self, i):
        time.sleep(0.006)
        return torch.full((64,), float(i % 7))


torch.manual_seed(0)
device = xm.xla_device()
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
ends = []
for x in pl.MpDeviceLoader(DataLoader(Slow(), batch_size=16), device):
    optimizer.zero_grad()
    loss = (model(x) - x).square().mean()
    loss.backward()
    xm.optimizer_step(optimizer)
    ends.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - ends[4]) / (len(ends) - 5) * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(ends, ends[1:])))
