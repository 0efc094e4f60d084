"""The checkpoint is copied to the host, and another thread writes it."""

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch_xla

import tpuprof

WIDTH, BATCH, STEPS, EVERY = 1024, 192, 40, 4

torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(2)]).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.randn(BATCH, WIDTH).to(device)
folder = tempfile.mkdtemp()
writer = ThreadPoolExecutor(max_workers=1)


def write(state, path):
    time.sleep(0.1)  # remote storage
    torch.save(state, path)


for step in range(STEPS):
    tpuprof.step(step)
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    # [shown]
    if step % EVERY == 0:
        state = {name: weight.cpu() for name, weight in model.state_dict().items()}
        writer.submit(write, state, f"{folder}/step-{step}.pt")
    # [/shown]

print("result", loss.item())
