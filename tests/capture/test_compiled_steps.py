"""A program whose whole step is a function of torch.compile: neither an optimizer call nor a graph cut shows a step."""

import os
import subprocess
import sys

from tests import scripts
from tpuprof.analysis.analyze import analyze_run

TRAIN = """
import time, torch, torch_xla
torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.Linear(8, 8).to(device)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
x = torch.ones(4, 8).to(device)

@torch.compile(backend="openxla")
def step(x):
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    return loss

for number in range(60):
    loss = step(x)
    time.sleep(0.05)
print("loss", loss.item())
"""


def test_its_steps_are_rounds_of_the_graphs_that_it_runs(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    bare = subprocess.run(
        [sys.executable, script], env=scripts.environment(), capture_output=True, text=True, check=True
    )
    done = scripts.capture(
        tmp_path / "run", sys.executable, script, env={**os.environ, **scripts.environment()}
    )
    assert done.returncode == 0, done.stderr
    assert bare.stdout == done.stdout
    report = analyze_run(tmp_path / "run")
    assert report.steps.method == "inferred from calls of torch.compile"
    assert report.steps.confidence == "medium"
    assert 8 <= report.steps.count <= 48
    # Each step holds its sleep, and no more than one. The rest of it took 28 ms on a busy machine.
    assert 50 <= report.steps.median_ms < 100
    assert report.verdict.bound == "host" and "time.sleep" in report.verdict.sentence
