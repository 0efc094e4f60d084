"""A user's own kind: clicks by embeddings of 16 features, their products with each other, and an MLP."""

import os

import torch
import torch_xla
from torch import nn

BATCH, ROWS, FEATURES, DIM = int(os.environ.get("BATCH", "1024")), 20_000, 16, 64


class Clicks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(ROWS, DIM) for _ in range(FEATURES))
        self.dense = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, DIM))
        pairs = (FEATURES + 1) ** 2
        self.top = nn.Sequential(nn.Linear(pairs + DIM, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU())
        self.out = nn.Linear(512, 1)

    def forward(self, numbers, ids):
        dense = self.dense(numbers)
        rows = torch.stack([dense, *(table(ids[:, at]) for at, table in enumerate(self.tables))], 1)
        pairs = (rows @ rows.transpose(1, 2)).flatten(1)
        return self.out(self.top(torch.cat((dense, pairs), 1))).squeeze(1)


device = torch_xla.device()
model = Clicks().to(device)
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
for step in range(20):
    numbers, ids = torch.randn(BATCH, 13).to(device), torch.randint(0, ROWS, (BATCH, FEATURES)).to(device)
    clicked = torch.ones(BATCH, device=device)
    optimizer.zero_grad()
    loss = nn.functional.binary_cross_entropy_with_logits(model(numbers, ids), clicked)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
