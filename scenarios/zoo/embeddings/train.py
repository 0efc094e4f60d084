import time

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
tables = nn.ModuleList([nn.Embedding(20000, 64) for _ in range(4)]).to(device)
head = nn.Linear(256, 1).to(device)
optimizer = torch.optim.SGD([*tables.parameters(), *head.parameters()], lr=0.1)
ids = torch.randint(0, 20000, (4, 2048)).to(device)
clicks = torch.randint(0, 2, (2048, 1)).float().to(device)
marks = []
for step in range(30):
    features = torch.cat([table(i) for table, i in zip(tables, ids)], 1)
    loss = nn.functional.binary_cross_entropy_with_logits(head(features), clicks)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[4]) / 25 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
