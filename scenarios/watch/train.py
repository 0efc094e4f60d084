"""A small training job with planted faults, for `tpuprof watch`: it knows nothing of tpuprof.

    python train.py STATE_FOLDER MINUTES

It saves a checkpoint every 50 steps and resumes from the newest. Faults lie at fixed steps: see `plan.py`.
"""

import io
import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("NPROC", "1")

import torch
import torch_xla
from plan import plan

EVERY = 50
HANG_SECONDS = 25.0
# Steps that leak 1 MiB each.
LEAK_STEPS = 640
STATE, PLAN = Path(sys.argv[1]), plan(float(sys.argv[2]))
FAULTS = PLAN.faults


class Batches(torch.utils.data.IterableDataset):
    def __iter__(self):
        while True:
            if at[0] == FAULTS["stall"]:
                time.sleep(1.5)
            yield torch.randn(32, 256)


class SlowDisk(io.BytesIO):
    """Storage that takes three seconds for a file."""

    def write(self, data):
        if not self.getbuffer().nbytes:
            time.sleep(3.0)
        return super().write(data)


def save(step):
    target = SlowDisk() if step == FAULTS["slow storage"] else STATE / "checkpoint.tmp"
    torch.save(
        {"step": step, "model": {name: each.cpu() for name, each in model.state_dict().items()}}, target
    )
    if not isinstance(target, SlowDisk):
        target.replace(STATE / "checkpoint.pt")


def wait_for_peer():
    time.sleep(HANG_SECONDS)


def note(what, **facts):
    with (STATE / "stopwatch.jsonl").open("a") as file:
        file.write(json.dumps({"what": what, "at": time.time(), **facts}) + "\n")


ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
note("start", age=float(Path("/proc/uptime").read_text().split()[0]) - ticks)
torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(6)]).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
at = [0]
if (STATE / "checkpoint.pt").exists():
    state = torch.load(STATE / "checkpoint.pt")
    model.load_state_dict(state["model"])
    at[0] = state["step"] + 1
resumed, leaked = at[0] > 0, []
for batch in torch.utils.data.DataLoader(Batches(), batch_size=None):
    step, began = at[0], time.monotonic()
    rows = batch[:20] if step == FAULTS["recompile"] and not resumed else batch
    optimizer.zero_grad()
    loss = model(rows.to(device)).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    time.sleep(max(PLAN.pause, PLAN.pace - (time.monotonic() - began)))
    if step % 10 == 0:
        loss.item()
    if FAULTS["leak"] <= step < FAULTS["leak"] + LEAK_STEPS:
        leaked.append(b"x" * 2**20)
    if step == FAULTS["hang"] and not resumed:
        wait_for_peer()
    if step % EVERY == 0:
        save(step)
    if step >= PLAN.last:
        break
    at[0] += 1
note("end")
