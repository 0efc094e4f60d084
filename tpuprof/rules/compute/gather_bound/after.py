"""The small table is looked up, and its gradient is added up, by a matrix product."""

import sys

import torch
import torch_xla

ROWS, WIDTH, STEPS = 512, 256, 3
TOKENS = int(sys.argv[1]) if len(sys.argv) > 1 else 65536

torch.manual_seed(0)
device = torch_xla.device()
table = torch.randn(ROWS, WIDTH).to(device, torch.bfloat16).requires_grad_()
wanted = torch.randn(TOKENS, WIDTH).to(device, torch.bfloat16)
ids = torch.randint(ROWS, (TOKENS,)).to(device)
optimizer = torch.optim.SGD([table], lr=0.01)


# [shown]
def look_up(ids, table):
    chosen = ids[:, None] == torch.arange(len(table), device=ids.device)
    return chosen.to(table.dtype) @ table


# [/shown]


for _ in range(STEPS):
    optimizer.zero_grad()
    loss = (look_up(ids, table) * wanted).square().mean(dtype=torch.float32)
    loss.backward()
    optimizer.step()
    torch_xla.sync()

print("result", loss.item())
