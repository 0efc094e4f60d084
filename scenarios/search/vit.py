"""A vision transformer of timm in float32."""

import argparse

import timm
import torch
import torch_xla.core.xla_model as xm

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--eval-batch-size", type=int, default=64)
args = parser.parse_args()
device = xm.xla_device()
model = timm.create_model("vit_small_patch16_224", pretrained=False, num_classes=1000, depth=1).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
for step in range(20):
    images = torch.randn(args.batch_size, 3, 224, 224).to(device)
    labels = torch.randint(0, 1000, (args.batch_size,)).to(device)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    xm.optimizer_step(optimizer)
    xm.mark_step()
