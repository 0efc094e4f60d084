import time

import torch
import torch.nn as nn
import torch_xla.core.xla_model as xm

torch.manual_seed(0)
device = xm.xla_device()
encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0), 3).to(
    device
)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.01)
x = torch.randn(8, 32, 128).to(device)
marks = []
for step in range(40):
    optimizer.zero_grad()
    loss = (encoder(x) - x).abs().mean()
    loss.backward()
    xm.optimizer_step(optimizer)
    xm.mark_step()
    xm.wait_device_ops()
    marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[4]) / 35 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
