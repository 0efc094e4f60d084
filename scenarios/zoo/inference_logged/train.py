import time

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
blocks = [nn.Sequential(nn.Linear(256, 256), nn.GELU()) for _ in range(4)]
model = nn.Sequential(*blocks).to(device).eval()
inputs = torch.randn(200, 64, 256)
words = [f"word {at % 977}" for at in range(60_000)]
kept, marks = [], []
with torch.no_grad():
    for batch in range(200):
        y = model(inputs[batch].to(device))
        kept.append(y.cpu().mean().item())
        counts = {}
        for word in words:
            counts[word] = counts.get(word, 0) + 1
        if batch % 10 == 0:
            print("largest", round(y.abs().max().item(), 4), len(counts))
        marks.append(time.perf_counter())
print("mean", sum(kept) / len(kept))
print(f"{(time.perf_counter() - marks[4]) / 195 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
