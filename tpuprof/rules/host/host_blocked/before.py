"""Every step writes a record and waits until it is on the disk; the training thread does the waiting."""

import json
import os
import tempfile
import time

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


for step in range(STEPS):
    tpuprof.step(step)
    for _ in range(4):
        x = torch.tanh(x @ weight)
    torch_xla.sync()
    if step % 5 == 4:
        x.sum().item()  # a value to log, every fifth step
    # [shown]
    ship({"step": step})  # the training thread waits for the disk
    # [/shown]

print("result", x.float().mean().item())
