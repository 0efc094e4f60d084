"""What counting steps costs a program that is followed no more: natively, in Python, and not at all, step by step.

    python benchmarks/counting_steps.py [--seconds 30]

After its capture a program's short steps are only counted (`tpuprof/capture/rests.py`). One process trains under
`tpuprof capture`, and behind the capture each step has at random tpuprof's hooks as they are, the same in Python, or
none. So whatever else the machine does meets all three alike. Prints the mean CPU time of the training thread per step
and what counting adds to it, without the slowest twentieth of each, with the standard error, over shapes of programs.
Needs the `xla` extra.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Name, layers, width, graph cuts per step (one in each layer, or one at the end).
SHAPES = (
    ("one cut, small step", 3, 64, False),
    ("one cut, larger step", 6, 256, False),
    ("eleven cuts", 10, 64, True),
)

PROGRAM = """
import json, random, statistics, sys, time
import torch, torch_xla
from torch.optim.optimizer import _global_optimizer_post_hooks as hooks
from tpuprof.instrument import step_count, sync_guard
layers, width, cuts, seconds = json.loads(sys.argv[1])
torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.ModuleList([torch.nn.Linear(width, width) for _ in range(layers)]).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(16, width).to(device)
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
extension = torch_xla._XLAC
# The first rest begins 32 steps behind the capture.
while not (sync_guard._ended and sync_guard._ended[0].__self__.rest.on):
    step()
rest = sync_guard._ended[0].__self__.rest
guard, hook = extension._xla_step_marker, next(iter(hooks.values()))
undo = sync_guard._replaced.undo[0]
own = dict(zip(undo.__code__.co_freevars, undo.__closure__))["own"].cell_contents
key = next(iter(hooks))
# As it is, but for the number of steps.
rest._count.begin("optimizer", 1, 10**7, 1e9)
python = step_count.PythonStepCount(time.monotonic, print)
called = python.of("optimizer").passes
python.begin("optimizer", 1, 10**7, 1e9)
slow = sync_guard._usual(own)
compiling = torch.compiler.is_dynamo_compiling
def in_python(_optimizer, _args, _kwargs):
    if compiling():
        return
    try:
        called()
    except Exception:
        raise
modes = {"none": (own, {}), "native": (guard, {key: hook}), "python": (slow, {key: in_python})}
took = {name: [] for name in modes}
chance, ends = random.Random(1), time.monotonic() + seconds
while time.monotonic() < ends:
    name = chance.choice([*modes])
    extension._xla_step_marker, now = modes[name]
    hooks.clear()
    hooks.update(now)
    began = time.thread_time()
    step()
    took[name].append(time.thread_time() - began)
extension._xla_step_marker = guard
hooks.clear()
hooks[key] = hook
rest.follow()
def mean(values):
    kept = sorted(values)[: len(values) * 19 // 20]
    return 1e6 * statistics.mean(kept), 1e6 * statistics.stdev(kept) / len(kept) ** 0.5
print(json.dumps({name: mean(values) for name, values in took.items()}))
"""


def measured(shape: tuple[str, int, int, bool], seconds: float) -> dict[str, tuple[float, float]]:
    """Mean CPU time per step and its standard error (us), by what counts."""
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
        script.write_text(PROGRAM, "utf-8")
        command = [sys.executable, "-m", "tpuprof", "capture", "-o", f"{folder}/run", "--", sys.executable]
        done = subprocess.run(
            [*command, str(script), json.dumps([*shape[1:], seconds])],
            cwd=folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, tuple[float, float]] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    """Measure each shape and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    for shape in SHAPES:
        found = measured(shape, options.seconds)
        bare, error = found.pop("none")
        print(f"{shape[0]:22} {bare:7.0f} ± {error:.0f} us", end="")
        for name, (mean, its) in found.items():
            more, both = mean - bare, (error**2 + its**2) ** 0.5
            print(f"; {name} {more:+.0f} ± {both:.0f} us, {more / bare:+.1%}", end="")
        print(flush=True)


if __name__ == "__main__":
    main()
