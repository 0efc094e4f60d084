import time

import torch
import torch.nn as nn
import torch_xla
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 1200

    def __getitem__(self, i):
        return torch.full((256,), i / 1200), i % 10


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = nn.Sequential(nn.Linear(256, 2048), nn.ReLU(), nn.Linear(2048, 256), nn.Linear(256, 10)).to(
        device
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Images(), batch_size=32, num_workers=1, drop_last=True, prefetch_factor=8)
    ends = []
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.repeat(8, 1)), y.repeat(8))
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        ends.append(time.perf_counter())
    print("loss", loss.item())
    print(f"{(time.perf_counter() - ends[4]) / (len(ends) - 5) * 1e3:.2f} ms per step")
    print("seconds", *(f"{b - a:.5f}" for a, b in zip(ends, ends[1:])))


if __name__ == "__main__":
    main()
