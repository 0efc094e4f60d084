import time

import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset


def main():
    set_seed(0)
    accelerator = Accelerator()
    model = nn.Sequential(
        *[nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU()) for _ in range(8)], nn.Linear(64, 4)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    dataset = TensorDataset(torch.randn(320, 64), torch.randint(0, 4, (320,)))
    loader = DataLoader(dataset, batch_size=8, shuffle=True, drop_last=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    ends = []
    for inputs, labels in loader:
        loss = nn.functional.cross_entropy(model(inputs), labels)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        ends.append(time.perf_counter())
    print("loss", loss.item())
    print(f"{(time.perf_counter() - ends[5]) / (len(ends) - 6) * 1e3:.2f} ms per step")
    print("seconds", *(f"{b - a:.5f}" for a, b in zip(ends, ends[1:])))


if __name__ == "__main__":
    main()
