import time

import timm
import timm.optim
import torch
import torch_xla.core.xla_model as xm

torch.manual_seed(0)
device = xm.xla_device()
model = timm.create_model("vit_tiny_patch16_224", pretrained=False, num_classes=10, img_size=64, depth=3).to(
    device
)
optimizer = timm.optim.create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
images, labels = torch.randn(32, 3, 64, 64).to(device), torch.randint(0, 10, (32,)).to(device)
ends = []
for step in range(25):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    xm.optimizer_step(optimizer)
    xm.mark_step()
    ends.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - ends[4]) / 20 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(ends, ends[1:])))
