"""Trains a small model under `tpuprof capture` for a benchmark of what follows the capture; no benchmark by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

# What programs begin with: `step()` trains once, with a graph cut in each layer or one at its end, and `original_cut()`
# is torch_xla's own function, without what tpuprof puts around it.
SETUP = """
import json, random, statistics, sys, time
import torch, torch_xla
from torch.optim.optimizer import _global_optimizer_post_hooks as hooks
from tpuprof.instrument import step_count, sync_guard
layers, width, cuts, eager, *more = json.loads(sys.argv[1])
torch_xla.experimental.eager_mode(eager)
torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.ModuleList([torch.nn.Linear(width, width) for _ in range(layers)]).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(16, width).to(device)
extension = torch_xla._XLAC
def step():
    hidden = x
    for layer in model:
        hidden = torch.relu(layer(hidden))
        if cuts:
            torch_xla.sync()
    optimizer.zero_grad()
    (hidden - x).square().mean().backward()
    optimizer.step()
    torch_xla.sync()
def original_cut():
    undo = sync_guard._replaced.undo[0]
    return dict(zip(undo.__code__.co_freevars, undo.__closure__))["own"].cell_contents
"""


def last_line(program: str, *arguments: object) -> Any:
    """What a program prints last, as JSON; it runs behind `SETUP`."""
    return json.loads(captured_output(SETUP + program, json.dumps(arguments)).strip().splitlines()[-1])


def captured_output(program: str, *arguments: str) -> str:
    """What a program prints under `tpuprof capture`, on one thread of the device."""
    environment = {
        **os.environ,
        "PJRT_DEVICE": "CPU",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
        "NPROC": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(program, "utf-8")
        command = [sys.executable, "-m", "tpuprof", "capture", "-o", f"{folder}/run", "--", sys.executable]
        done = subprocess.run(
            [*command, str(script), *arguments],
            cwd=folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout
