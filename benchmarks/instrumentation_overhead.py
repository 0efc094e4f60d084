"""What instrumentation costs, against torch_xla's own; capture_overhead.py measures what capturing costs training.

    python benchmarks/instrumentation_overhead.py

Runs each side in a process of its own on PJRT_DEVICE=CPU, in turn, several times, and prints medians, their
spread and ratios. Needs the `xla` extra.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPEATS = 5

ANNOTATION = """
import json, timeit, sys
import torch, torch_xla
import torch_xla.debug.profiler as xp
import tpuprof
from tpuprof.instrument import sync_guard
from tpuprof.instrument.state import STATE

N = 20_000
def per_call_us(body, number=N):
    return min(timeit.repeat(body, number=number, repeat=3)) / number * 1e6
def empty():
    pass
def ours():
    with tpuprof.annotate("x"):
        pass
def theirs():
    with xp.Trace("x"):
        pass
@tpuprof.annotate("x")
def decorated():
    pass
x = torch.ones(4, device=torch_xla.device())
def steptrace():
    with xp.StepTrace("x", step_num=1):
        pass
base = per_call_us(empty)
result = {"off": per_call_us(ours) - base, "decorator off": per_call_us(decorated) - base}
result["step off"] = per_call_us(lambda: tpuprof.step(1)) - base
result["torch_xla Trace"] = per_call_us(theirs, 2000) - base
result["torch_xla StepTrace"] = per_call_us(steptrace, 300) - base
sync_guard.install()
STATE.armed = True
result["armed"] = per_call_us(ours, 2000) - base
print(json.dumps(result))
"""


def run(code: str) -> dict[str, float]:
    """Run a script; what it printed last."""
    environment = {
        **os.environ,
        "PJRT_DEVICE": "CPU",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
        "PYTHONPATH": str(ROOT),
    }
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.py"
        script.write_text(code)
        command = [sys.executable, str(script)]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, cwd=folder
        )
    return json.loads(done.stdout.strip().splitlines()[-1])


def show(name: str, values: list[float], unit: str) -> float:
    """Print one line; returns the median."""
    median = statistics.median(values)
    print(f"{name:<44} {median:9.3f} {unit}   ({min(values):.3f} to {max(values):.3f})")
    return median


def main() -> None:
    """Measure and print."""
    calls = [run(ANNOTATION) for _ in range(REPEATS)]
    medians = {name: show(name, [call[name] for call in calls], "us") for name in calls[0]}
    print(f"annotate, nothing capturing, against xp.Trace: {medians['off'] / medians['torch_xla Trace']:.4f}")
    print(
        f"annotate while capturing, against xp.Trace:    {medians['armed'] / medians['torch_xla Trace']:.3f}"
    )
    print(
        f"tpuprof.step, against xp.StepTrace:            {medians['step off'] / medians['torch_xla StepTrace']:.5f}"
    )


if __name__ == "__main__":
    main()
