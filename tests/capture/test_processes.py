"""Several processes or threads that train under one capture."""

import sys

import pytest

from tests import scripts
from tpuprof.analysis.analyze import analyze_run

pytestmark = pytest.mark.torch_xla

WORK = """
import sys, time
import torch, torch_xla

def work(index):
    device = torch_xla.device()
    x = torch.ones(256, 256, device=device)
    for step in range(14):
        for _ in range(20):
            x = (x @ x).tanh()
        torch_xla.sync()
        # Reading a value keeps the host from running ahead of the device, past the end of so short a capture.
        x[0, 0].item()
    print("worker", index, flush=True)
"""

# On the CPU device torch_xla.launch starts one process with a thread a device.
LAUNCH = (
    WORK
    + """
if __name__ == "__main__":
    torch_xla.launch(work)
"""
)

SPAWN = (
    WORK
    + """
import torch.multiprocessing as mp
if __name__ == "__main__":
    mp.start_processes(work, nprocs=2, start_method="spawn")
"""
)


def launch(folder, code, **env):
    script = scripts.write(folder / "train.py", code, prelude=False)
    done = scripts.capture(
        folder / "run",
        sys.executable,
        script,
        options=["--steps", "3", "--name", "one"],
        env=scripts.environment(**env),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("worker") == 2
    return analyze_run(folder / "run"), done.stderr


@pytest.mark.slow("another real capture; spawned processes are captured below")
def test_torch_xla_launch(tmp_path):
    report, stderr = launch(tmp_path, LAUNCH, CPU_NUM_DEVICES="2")
    assert report.environment["host_count"] == 1
    assert report.steps.count == 3, stderr
    assert report.environment["device_count"] == 2
    assert report.environment["run"]["capture"]["steps_captured"] == 3


def test_spawned_processes_write_a_profile_each(tmp_path):
    report, stderr = launch(tmp_path, SPAWN)
    assert report.environment["host_count"] == 2, stderr
    assert report.steps.count == 3
    assert len(report.steps.per_step) == 6
    assert len(list((tmp_path / "run" / "tpuprof").glob("telemetry.*"))) == 2
