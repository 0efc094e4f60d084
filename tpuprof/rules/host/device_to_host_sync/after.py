"""The same sampling; the count stays on the device and is read once, after the loop."""

import torch
import torch_xla

import tpuprof

WIDTH, WORDS, BATCH, DEPTH, STEPS, END = 384, 2048, 160, 16, 40, 7

torch.manual_seed(0)
device = torch_xla.device()
embed = torch.nn.Embedding(WORDS, WIDTH).to(device)
layers = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH)]).to(device)
token = torch.arange(BATCH).to(device)
finished = torch.zeros((), dtype=torch.int64, device=device)

with torch.no_grad():
    for step in range(STEPS):
        tpuprof.step(step)
        # [shown]
        token = (layers(embed(token)) @ embed.weight.T).argmax(-1)
        finished += (token == END).sum()  # stays on the device; read after the loop
        torch_xla.sync()
        # [/shown]

print("result", finished.item(), token.float().mean().item())
