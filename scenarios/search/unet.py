"""A small diffusion UNet that predicts noise, in float32."""

import argparse
import math

import torch
import torch.nn.functional as F
import torch_xla
from torch import nn


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, time: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, inputs), nn.GroupNorm(8, outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time, self.skip = nn.Linear(time, outputs), nn.Conv2d(inputs, outputs, 1)

    def forward(self, x, time):
        inner = self.conv1(F.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(inner)))


class UNet(nn.Module):
    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.width, time = width, 4 * width
        self.embed = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.first, self.last = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.down1, self.down2 = Residual(width, width, time), Residual(width, 2 * width, time)
        self.middle = Residual(2 * width, 2 * width, time)
        self.up2, self.up1 = Residual(4 * width, width, time), Residual(2 * width, width, time)

    def forward(self, x, when):
        waves = torch.exp(torch.arange(self.width // 2, device=x.device) * (-math.log(1e4) * 2 / self.width))
        angles = when[:, None] * waves
        time = self.embed(torch.cat((angles.sin(), angles.cos()), 1))
        one = self.down1(self.first(x), time)
        two = self.down2(F.avg_pool2d(one, 2), time)
        x = self.middle(F.avg_pool2d(two, 2), time)
        x = self.up2(torch.cat((F.interpolate(x, scale_factor=2), two), 1), time)
        return self.last(self.up1(torch.cat((F.interpolate(x, scale_factor=2), one), 1), time))


parser = argparse.ArgumentParser()
parser.add_argument("--train-batch-size", type=int, default=8)
args = parser.parse_args()
device = torch_xla.device()
model = UNet().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(20):
    images = torch.randn(args.train_batch_size, 3, 32, 32).to(device)
    noise, when = torch.randn_like(images), torch.rand(args.train_batch_size, device=device)
    noisy = images * (1 - when)[:, None, None, None] + noise * when[:, None, None, None]
    optimizer.zero_grad()
    loss = F.mse_loss(model(noisy, when * 1000), noise)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
