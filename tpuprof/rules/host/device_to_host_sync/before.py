"""Text is sampled token by token; every step asks the device whether all texts have ended."""

import torch
import torch_xla

import tpuprof

WIDTH, WORDS, BATCH, DEPTH, STEPS, END = 384, 2048, 160, 16, 40, 7

torch.manual_seed(0)
device = torch_xla.device()
embed = torch.nn.Embedding(WORDS, WIDTH).to(device)
layers = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH)]).to(device)
token = torch.arange(BATCH).to(device)
finished = 0

with torch.no_grad():
    for step in range(STEPS):
        tpuprof.step(step)
        # [shown]
        token = (layers(embed(token)) @ embed.weight.T).argmax(-1)
        torch_xla.sync()
        finished += int((token == END).sum().item())  # waits for the device in every step
        # [/shown]

print("result", finished, token.float().mean().item())
