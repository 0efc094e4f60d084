import time

import torch
import torch_xla
from torchvision.models import mobilenet_v3_small

torch.manual_seed(0)
device = torch_xla.device()
model = mobilenet_v3_small(num_classes=10, dropout=0.0).to(device).train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
images, labels = torch.randn(2, 3, 32, 32).to(device), torch.randint(0, 10, (2,)).to(device)
marks = []
for step in range(20):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[4]) / 15 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
