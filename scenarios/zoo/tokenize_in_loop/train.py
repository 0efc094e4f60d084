import random
import re
import time

import torch
import torch.nn as nn
import torch_xla

random.seed(0)
torch.manual_seed(0)
words = ["".join(random.choices("abcdefghij", k=random.randint(2, 9))) for _ in range(2000)]
vocabulary = {word: number for number, word in enumerate(words)}
corpus = [" ".join(random.choices(words, k=200)) + "." for _ in range(64)]


def encode(text, length=64):
    ids = []
    for token in re.findall(r"\w+|[^\w\s]", text):
        token = token.lower()
        best = max((token[:n] for n in range(1, len(token) + 1)), key=len)
        ids.append(vocabulary.get(best, 0))
    return (ids + [0] * length)[:length]


device = torch_xla.device()
model = nn.Sequential(nn.Embedding(2000, 32), nn.Flatten(), nn.Linear(64 * 32, 2)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
ends = []
for step in range(40):
    texts = random.sample(corpus, 32)
    ids = torch.tensor([encode(text) for text in texts]).to(device)
    labels = (ids[:, 0] % 2).long()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(ids), labels)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    ends.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - ends[4]) / 35 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(ends, ends[1:])))
