"""Each batch is padded to its own longest text, so nearly every step compiles."""

import torch
import torch_xla

import tpuprof

WIDTH, WORDS, BATCH, STEPS = 512, 1000, 8, 24

torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.Sequential(
    torch.nn.Embedding(WORDS, WIDTH),
    torch.nn.Linear(WIDTH, WIDTH),
    torch.nn.ReLU(),
    torch.nn.Linear(WIDTH, WORDS),
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for step in range(STEPS):
    tpuprof.step(step)
    lengths = torch.randint(16, 128, (BATCH,))
    texts = [torch.arange(int(length)) % WORDS for length in lengths]
    # [shown]
    batch = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=-1)
    # [/shown]
    batch = batch.to(device)
    optimizer.zero_grad()
    logits = model(batch[:, :-1].clamp(min=0))
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), ignore_index=-1)
    loss.backward()
    optimizer.step()
    torch_xla.sync()

print("result", loss.item())
