"""`tpuprof capture -- python train.py` on a TorchTPU program, run for real on a CPU plugin.

TorchTPU needs another torch than torch_xla: `make torchtpu` makes a second environment for it. Without, this is skipped.
"""

import os
from pathlib import Path

import pytest

from tests import scripts
from tpuprof.analysis.analyze import analyze_run

ROOT = Path(__file__).resolve().parents[2]
OTHER = Path(os.environ.get("TPUPROF_TORCHTPU", ROOT / ".venv-torchtpu"))
PROGRAM = """
import torch, torch_tpu
from torch_tpu import _loader
_loader._init_device("tpu")
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)).to("tpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(30):
    x, y = torch.randn(16, 64).to("tpu"), torch.randint(0, 10, (16,)).to("tpu")
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    loss.item()
"""


def test_an_unchanged_program_is_captured_with_steps_and_the_line_of_its_read(tmp_path):
    python = OTHER / "bin" / "python"
    plugins = sorted(OTHER.glob("lib/python*/site-packages/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"))
    if not python.exists() or not plugins:
        pytest.skip("no environment with torch_tpu: make it with `make torchtpu`")
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    environment = {
        **os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "TPU_LIBRARY_PATH": str(plugins[-1]), "PYTHONPATH": ""
    }  # fmt: skip
    done = scripts.capture(tmp_path / "run", python, script, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    report = analyze_run(tmp_path / "run")
    assert report.environment["framework"] == "torch_tpu"
    assert (report.steps.count, report.steps.method) == (8, "optimizer steps")
    reads = [row for row in report.host_reads if row.call == "item"]
    assert [(row.source.rpartition(":")[2], row.occurrences) for row in reads] == [("13", 8)]
    assert "device-to-host-sync" in [each.rule for each in report.findings]
