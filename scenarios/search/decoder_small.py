"""A small GPT in float32, as a tutorial writes it."""

import argparse

import torch
import torch.nn.functional as F
import torch_xla
from torch import nn


class Block(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        batch, length, dim = x.shape
        q, k, v = (
            each.view(batch, length, self.heads, -1).transpose(1, 2)
            for each in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        scores = q @ k.transpose(-1, -2) * (dim // self.heads) ** -0.5
        mask = torch.ones(length, length, device=x.device).tril() == 0
        weights = scores.masked_fill(mask, float("-inf")).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, dim))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, vocab: int, dim: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim, dim // 64) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--length", type=int, default=256)
parser.add_argument("--vocab", type=int, default=8003)
args = parser.parse_args()
device = torch_xla.device()
model = GPT(args.vocab, 256, 2).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for step in range(20):
    tokens = torch.randint(0, args.vocab, (args.batch, args.length)).to(device)
    optimizer.zero_grad()
    logits = model(tokens)
    loss = F.cross_entropy(logits[:, :-1].reshape(-1, args.vocab), tokens[:, 1:].reshape(-1))
    loss.backward()
    optimizer.step()
    torch_xla.sync()
