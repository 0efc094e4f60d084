"""torchvision's ResNet with one block in each stage (ResNet-10) on small images, in float32, with SGD."""

import argparse

import torch
import torch_xla.core.xla_model as xm
import torchvision

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=16)
args = parser.parse_args()
device = xm.xla_device()
model = torchvision.models.ResNet(torchvision.models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=100).to(
    device
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(20):
    images, labels = torch.randn(args.batch, 3, 64, 64).to(device), torch.arange(args.batch).to(device) % 100
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    xm.optimizer_step(optimizer)
    xm.mark_step()
