import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.utils.utils as xu


class MNIST(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.bn1 = nn.BatchNorm2d(10)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        self.bn2 = nn.BatchNorm2d(20)
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, x):
        x = self.bn1(F.relu(F.max_pool2d(self.conv1(x), 2)))
        x = self.bn2(F.relu(F.max_pool2d(self.conv2(x), 2)))
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return F.log_softmax(self.fc2(x), dim=1)


def train_mnist(batch_size=128, steps=40):
    torch.manual_seed(1)
    device = xm.xla_device()
    train_loader = xu.SampleGenerator(
        data=(torch.rand(batch_size, 1, 28, 28), torch.zeros(batch_size, dtype=torch.int64)),
        sample_count=steps,
    )
    train_device_loader = pl.MpDeviceLoader(train_loader, device)
    model = MNIST().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    loss_fn = nn.NLLLoss()
    ends = []
    for data, target in train_device_loader:
        optimizer.zero_grad()
        loss = loss_fn(model(data), target)
        loss.backward()
        xm.optimizer_step(optimizer)
        ends.append(time.perf_counter())
    print("loss", loss.item())
    print(f"{(time.perf_counter() - ends[4]) / (len(ends) - 5) * 1e3:.2f} ms per step")
    print("seconds", *(f"{b - a:.5f}" for a, b in zip(ends, ends[1:])))


if __name__ == "__main__":
    train_mnist()
