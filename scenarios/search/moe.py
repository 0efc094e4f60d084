"""A mixture of eight experts in float32: each token goes to two of them, through one-hot products."""

import argparse

import torch
import torch.nn.functional as F
import torch_xla
from torch import nn


class Experts(nn.Module):
    def __init__(self, dim: int, hidden: int, experts: int, slots: int) -> None:
        super().__init__()
        self.slots, self.norm, self.router = slots, nn.LayerNorm(dim), nn.Linear(dim, experts)
        self.up = nn.Parameter(torch.randn(experts, dim, hidden) * dim**-0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, dim) * hidden**-0.5)

    def forward(self, x):
        """Tokens beyond an expert's slots pass by it."""
        normed = self.norm(x)
        share, chosen = self.router(normed).softmax(-1).topk(2, -1)
        picked = F.one_hot(chosen, self.up.shape[0]).to(x.dtype)
        place = (picked.flatten(0, 1).cumsum(0).view_as(picked) * picked - 1).long()
        slots = torch.arange(self.slots, device=x.device)
        sent = (place.unsqueeze(-1) == slots).to(x.dtype) * picked.unsqueeze(-1)
        received = torch.einsum("tkes,td->esd", sent, normed)
        made = torch.bmm(F.gelu(torch.bmm(received, self.up)), self.down)
        return x + torch.einsum("tkes,tk,esd->td", sent, share, made)


parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=4)
args = parser.parse_args()
vocab, dim, length = 4096, 512, 128
device = torch_xla.device()
slots = args.batch * length // 4
model = nn.Sequential(
    nn.Embedding(vocab, dim), *(Experts(dim, 1024, 8, slots) for _ in range(1)), nn.Linear(dim, vocab)
)
model = model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for step in range(20):
    tokens = torch.randint(0, vocab, (args.batch * length,)).to(device)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(tokens), tokens)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
