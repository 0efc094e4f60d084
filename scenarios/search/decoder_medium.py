"""A Llama-like decoder in bfloat16 with gated MLPs; `--remat` computes layers again in the backward."""

import argparse

import torch
import torch.nn.functional as F
import torch_xla
from torch import nn
from torch_xla.distributed.fsdp import checkpoint_module


class Layer(nn.Module):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        batch, length, dim = x.shape
        normed = self.norm1(x)
        q, k, v = (
            each(normed).view(batch, length, -1, 128).transpose(1, 2) for each in (self.q, self.k, self.v)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(mixed.transpose(1, 2).reshape(batch, length, dim))
        normed = self.norm2(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=2)
parser.add_argument("--layers", type=int, default=1)
parser.add_argument("--remat", action="store_true")
args = parser.parse_args()
vocab, dim, length = 16384, 768, 512
device = torch_xla.device()
embed, head = nn.Embedding(vocab, dim), nn.Linear(dim, vocab, bias=False)
model = nn.Sequential(
    embed, nn.Sequential(*(Layer(dim, 2048) for _ in range(args.layers))), nn.RMSNorm(dim), head
)
model = model.to(torch.bfloat16).to(device)
if args.remat:
    for layer in model[1]:
        checkpoint_module(layer)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for step in range(20):
    tokens = torch.randint(0, vocab, (args.batch, length)).to(device)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(tokens).float().view(-1, vocab), tokens.view(-1))
    loss.backward()
    optimizer.step()
    torch_xla.sync()
