"""Epochs whose last batch is short, with an evaluation after each: both compile once, behind the capture."""

import time

import torch
import torch.nn as nn
import torch_xla
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch_xla.device()
x = torch.randn(70 * 16 + 5, 32)
y = (x[:, 0] > 0).long()
train = DataLoader(TensorDataset(x, y), batch_size=16)
blocks = [nn.Sequential(nn.Linear(32, 32), nn.LayerNorm(32), nn.ReLU()) for _ in range(8)]
model = nn.Sequential(*blocks, nn.Linear(32, 2)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
held_out = x[:64].to(device), y[:64].to(device)
marks = []
for epoch in range(4):
    for inputs, labels in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        marks.append(time.perf_counter())
    with torch.no_grad():
        print(epoch, f"{nn.functional.cross_entropy(model(held_out[0]), held_out[1]).item():.4f}")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
