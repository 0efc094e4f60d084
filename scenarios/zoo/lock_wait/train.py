import threading
import time

import torch
import torch.nn as nn
import torch_xla

lock = threading.Lock()
history = []


def publish():
    """Sends the metrics to a slow server, under the lock that guards them."""
    while True:
        with lock:
            time.sleep(0.12)
        time.sleep(0.001)


threading.Thread(target=publish, daemon=True).start()
torch.manual_seed(0)
device = torch_xla.device()
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 4)).to(device)
optimizer = torch.optim.AdamW(model.parameters())
marks = []
for step in range(30):
    x = torch.randn(16, 32, device=device)
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    with lock:
        history.append(step)
    marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[4]) / 25 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
