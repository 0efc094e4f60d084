"""Runs training code in a process of its own, so that the test process never starts the XLA runtime."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PRELUDE = """
import json, sys
import torch, torch_xla
import tpuprof

def facts(**values):
    print("FACTS " + json.dumps(values))

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(8, 16)
        self.down = torch.nn.Linear(16, 8)
    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Block() for _ in range(2))
        self.head = torch.nn.Linear(8, 4)
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)

torch.manual_seed(0)
device = torch_xla.device()
model = Model().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def forward_backward(rows=4):
    x = torch.ones(rows, 8).to(device)
    with tpuprof.annotate("forward"):
        loss = model(x).square().mean()
    with tpuprof.annotate("backward"):
        loss.backward()
    return loss

def train(rows=4):
    optimizer.zero_grad()
    loss = forward_backward(rows)
    optimizer.step()
    return loss
"""


def environment(**extra):
    """The environment of a training process on the CPU device, one thread for it."""
    drop = ("XLA_", "PT_XLA_", "PJRT_", "TPUPROF_", "CPU_NUM_DEVICES")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(drop)}
    return {
        **kept,
        "PJRT_DEVICE": "CPU",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
        "PYTHONPATH": str(ROOT),
        **extra,
    }


def write(path, code, *, prelude=True):
    """Write a script that has the small model and `train()` at hand."""
    path.write_text((PRELUDE if prelude else "") + textwrap.dedent(code), "utf-8")
    return path


def run(path, *args, status=0, **env):
    """Run a script; returns the completed process."""
    done = subprocess.run(
        [sys.executable, str(path), *map(str, args)],
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == status, done.stderr[-4000:]
    return done


def capture_command(run, *command, options=()):
    """The command line that runs a command under `tpuprof capture`, into the folder `run`."""
    # Without a number of steps, a capture of short ones holds as many as half a second does.
    steps = () if {"--steps", "--addr"} & set(options) else ("--steps", "8")
    return [
        sys.executable,
        "-m",
        "tpuprof",
        "capture",
        "-o",
        str(run),
        *steps,
        *options,
        "--",
        *map(str, command),
    ]


def capture_begun(run, *command, options=(), **popen):
    """The process of `tpuprof capture`, in a session of its own, with the program's output to read."""
    return subprocess.Popen(
        capture_command(run, *command, options=options),
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **popen,
    )


def capture(run, *command, options=(), **popen):
    """Run a command under `tpuprof capture`; returns the completed process. `popen` goes to `subprocess.run`."""
    return subprocess.run(
        capture_command(run, *command, options=options),
        **{"capture_output": True, "text": True, "timeout": 300, "env": environment(), **popen},
        check=False,
    )


def captured(folder, code):
    """The report on a program that ran under `tpuprof capture`."""
    from tpuprof.analysis.analyze import analyze_run

    done = capture(folder / "run", sys.executable, write(folder / "train.py", code, prelude=False))
    assert done.returncode == 0, done.stderr
    return analyze_run(folder / "run")


def facts(done):
    """What a script told with `facts(...)`."""
    import json

    found = {}
    for line in done.stdout.splitlines():
        if line.startswith("FACTS "):
            found.update(json.loads(line[6:]))
    return found
