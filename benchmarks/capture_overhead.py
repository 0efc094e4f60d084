"""What `tpuprof capture` costs a training loop outside the steps that it captures.

    python benchmarks/capture_overhead.py [--pairs 12] [--blocks 60]

Two processes train the same model on PJRT_DEVICE=CPU, one bare, one under `tpuprof capture`, and take turns: a
block of steps in one, then in the other, which goes first drawn at random. Blocks next to each other in time
are compared, so the machine's drift cancels; what differs from process to process (memory layout) is averaged
over several pairs of processes. Steps up to the end of the capture are left out, and the first ones of a long
warm-up. Prints the slow-down with its 95 % confidence interval over pairs, and the same of bare against bare, which
shows the method's own error. The kinds take turns, so that none of them has the machine's better hour.
Needs the `xla` extra and a machine with nothing else to do.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK_STEPS = 10
WARMUP, CAPTURED = 20, 8
# Blocks left out at the start: they hold warm-up, compiles and the captured steps.
LEFT_OUT = 8
PATIENCE = 300
# What the second process of a pair is, with the warm-up of its capture (steps); the last one never captures.
KINDS = {"bare against bare": None, "after a capture": WARMUP, "in a long warm-up": 1_000_000}
# 0.975 quantile of Student's t by degrees of freedom (any table); beyond the last, the normal one.
STUDENT_T = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13]

LOOP = """
import socket, sys, time
import torch, torch_xla
from tpuprof.demo.decoder import Decoder, Shape, next_token_loss
wire = socket.create_connection(("127.0.0.1", int(sys.argv[1]))).makefile("rw")
model = Decoder(Shape(layers=4)).to(torch_xla.device())
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
while wire.readline().strip() == "go":
    began = time.perf_counter()
    for _ in range(int(sys.argv[2])):
        tokens = torch.randint(256, (4, 33)).to(torch_xla.device())
        optimizer.zero_grad()
        next_token_loss(model, tokens).backward()
        optimizer.step()
        torch_xla.sync()
    torch_xla.sync(wait=True)
    print(time.perf_counter() - began, file=wire, flush=True)
"""


class Trainee:
    """A training process that does a block of steps when told, and says how long it took."""

    def __init__(self, folder: Path, *, warmup: int | None) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(PATIENCE)
            script = folder / "loop.py"
            script.write_text(LOOP)
            run = [sys.executable, str(script), str(server.getsockname()[1]), str(BLOCK_STEPS)]
            self.process = subprocess.Popen(
                run if warmup is None else [*_capture(folder, warmup), *run],
                cwd=folder,
                env=_environment(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            self.wire = server.accept()[0].makefile("rw")

    def block(self) -> float:
        """Seconds of one block."""
        print("go", file=self.wire, flush=True)
        return float(self.wire.readline())

    def stop(self) -> None:
        """End it, and wait for what it writes."""
        print("stop", file=self.wire, flush=True)
        self.process.wait(PATIENCE)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--blocks", type=int, default=60)
    arguments = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for _ in range(arguments.pairs):
        for kind, warmup in KINDS.items():
            found[kind].append(pair(arguments.blocks, warmup=warmup))
    for kind, pairs in found.items():
        show(kind, pairs)


def pair(blocks: int, *, warmup: int | None) -> tuple[float, float]:
    """Slow-down of the second process against the first, and the first one's time of a step (ms)."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        bare, under = Trainee(Path(one), warmup=None), Trainee(Path(other), warmup=warmup)
        rounds = [_round(bare, under) for _ in range(LEFT_OUT + blocks)][LEFT_OUT:]
        bare.stop()
        under.stop()
        if warmup == WARMUP and not list(Path(other).glob("run/plugins/profile/*/*.xplane.pb")):
            sys.exit("nothing was captured, so there is nothing to compare")
    slow_down = statistics.median(second / first - 1 for first, second in rounds)
    return slow_down, statistics.median(first for first, _ in rounds) / BLOCK_STEPS * 1e3


def show(name: str, pairs: list[tuple[float, float]]) -> None:
    percent = [slow_down * 100 for slow_down, _ in pairs]
    mean = statistics.mean(percent)
    freedom = len(percent) - 1
    error = statistics.stdev(percent) / len(percent) ** 0.5 if freedom else float("nan")
    reach = (STUDENT_T[freedom - 1] if freedom <= len(STUDENT_T) else 1.96) * error
    each = ", ".join(f"{value:+.2f}" for value in sorted(percent))
    step = statistics.median(step for _, step in pairs)
    print(f"{name}: {mean:+.2f} % ({mean - reach:+.2f} to {mean + reach:+.2f}), steps of {step:.2f} ms")
    print(f"  each pair of processes: {each}", flush=True)


def _round(bare: Trainee, under: Trainee) -> tuple[float, float]:
    if random.random() < 0.5:
        first = bare.block()
        return first, under.block()
    second = under.block()
    return bare.block(), second


def _capture(folder: Path, warmup: int) -> list[str]:
    options = ["--warmup", str(warmup), "--steps", str(CAPTURED), "-o", str(folder / "run")]
    return [sys.executable, "-m", "tpuprof", "capture", *options, "--"]


def _environment() -> dict[str, str]:
    # One thread for the device, so that the host has a core of its own.
    flags = {"PJRT_DEVICE": "CPU", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "NPROC": "1"}
    return {**os.environ, **flags, "PYTHONPATH": str(ROOT)}


if __name__ == "__main__":
    main()
