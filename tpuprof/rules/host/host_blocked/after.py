"""The same records, written by a thread of their own."""

import json
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch_xla

import tpuprof

WIDTH, STEPS = 256, 40

torch.manual_seed(0)
device = torch_xla.device()
weight = torch.randn(WIDTH, WIDTH).to(device)
x = torch.randn(WIDTH, WIDTH).to(device)


def ship(record):
    """Write a record to a place that takes 10 ms to confirm it, as network disks do."""
    with tempfile.TemporaryFile("w") as file:
        file.write(json.dumps(record))
        file.flush()
        os.fsync(file.fileno())
    time.sleep(0.01)


writer = ThreadPoolExecutor(max_workers=1)
for step in range(STEPS):
    tpuprof.step(step)
    for _ in range(4):
        x = torch.tanh(x @ weight)
    torch_xla.sync()
    if step % 5 == 4:
        x.sum().item()  # a value to log, every fifth step
    # [shown]
    writer.submit(ship, {"step": step})  # one thread of its own waits for the disk
    # [/shown]

writer.shutdown(wait=True)
print("result", x.float().mean().item())
