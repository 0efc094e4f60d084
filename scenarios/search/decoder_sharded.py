"""A wider decoder on four chips with SPMD: weights over `fsdp` and `model`, the batch over `fsdp`."""

import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch import nn


class Layer(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.up, self.down = nn.Linear(dim, 4 * dim, bias=False), nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x):
        batch, length, dim = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, dim // 128, 128)
        q, k, v = (part.transpose(1, 2) for part in parts.unbind(2))
        weights = (q @ k.transpose(-1, -2) * 128**-0.5).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, dim))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


LAYERS = 1
xr.use_spmd()
count = xr.global_runtime_device_count()
mesh = xs.Mesh(list(range(count)), (1, count), ("fsdp", "model"))
vocab, dim, length, batch = 16384, 1024, 512, 16
device = torch_xla.device()
layers = nn.ModuleList(Layer(dim) for _ in range(LAYERS))
model = nn.Sequential(nn.Embedding(vocab, dim), nn.Sequential(*layers), nn.Linear(dim, vocab, bias=False))
model = model.to(torch.bfloat16).to(device)
for name, weight in model.named_parameters():
    if weight.dim() == 2:
        rows = name.endswith(("out.weight", "down.weight"))
        xs.mark_sharding(weight, mesh, ("fsdp", "model") if rows else ("model", "fsdp"))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for step in range(20):
    tokens = torch.randint(0, vocab, (batch, length)).to(device)
    xs.mark_sharding(tokens, mesh, ("fsdp", None))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(tokens).float().view(-1, vocab), tokens.view(-1))
    loss.backward()
    optimizer.step()
    torch_xla.sync()
