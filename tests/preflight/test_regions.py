"""Regions of torch.compile(backend="openxla"): programs of their own, as many as a real run executes."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.torch_xla

from tpuprof.preflight.script import ScriptRun, trace_script  # noqa: E402

SCRIPT = """
import torch, torch_xla
from torch import nn
device = torch_xla.device()
model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
compiled = torch.compile(model, backend="openxla")
for step in range(6):
    x, y = torch.randn(8, 256).to(device), torch.zeros(8, dtype=torch.int64).to(device)
    optimizer.zero_grad()
    nn.functional.cross_entropy(compiled(x), y).backward()
    optimizer.step()
    torch_xla.sync()
"""
COUNT = """
    torch_xla._XLAC._xla_wait_device_ops([])
    print("RAN", torch_xla._XLAC._xla_metric_data("ExecuteTime")[0])
"""


@pytest.mark.slow("torch.compile for real, and traced")
def test_regions_are_programs_of_their_own_as_in_a_real_run(tmp_path):
    path, real = tmp_path / "train.py", tmp_path / "real.py"
    path.write_text(SCRIPT)
    real.write_text(SCRIPT + COUNT)
    env = {**os.environ, "PJRT_DEVICE": "CPU"}
    done = subprocess.run([sys.executable, str(real)], env=env, capture_output=True, text=True, check=True)
    counts = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("RAN")]
    (tmp_path / "trace").mkdir()
    trace = trace_script(ScriptRun(str(path)), tmp_path / "trace")
    assert trace.is_steady
    assert trace.trains
    assert sum(times for _, times in trace.iteration) == counts[-1] - counts[-2]
    kinds = [graph.kind for graph, _ in trace.iteration]
    # Forward and backward; the optimizer's step is traced lazily and updates the four weights.
    assert kinds.count("compiled region") == 2
    assert trace.steady.updates == 4
    forward = next(graph for graph, _ in trace.iteration if graph.kind == "compiled region")
    assert {"0.weight", "0.bias", "2.weight", "2.bias"} <= set(forward.parameter_names)
