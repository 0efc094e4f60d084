import threading
import time

import torch
import torch.nn as nn
import torch_xla

counts = {}


def statistics():
    """Counts words of a log for a status page, for ever."""
    n = 0
    while True:
        for word in ("loss", "rate", "norm"):
            counts[word] = counts.get(word, 0) + 1
            n += sum(ord(letter) for letter in word)


threading.Thread(target=statistics, daemon=True).start()
torch.manual_seed(0)
device = torch_xla.device()
model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(8)]).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
marks = []
for step in range(30):
    x = torch.randn(16, 64).to(device)
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[4]) / 25 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
