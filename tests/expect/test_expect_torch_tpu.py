"""`tpuprof.expect` around TorchTPU training, run for real on a CPU plugin in the second environment."""

import json
import os
import subprocess
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OTHER = Path(os.environ.get("TPUPROF_TORCHTPU", ROOT / ".venv-torchtpu"))
PROGRAM = """
import json
import torch, torch_tpu
from torch_tpu import _loader
_loader._init_device("tpu")
import tpuprof
model = torch.nn.Linear(8, 4).to("tpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def loop(count, rows=lambda step: 4, after=lambda loss: None):
    for step in range(count):
        optimizer.zero_grad()
        out = model(torch.ones(rows(step), 8).to("tpu"))  # FORWARD
        loss = out.square().mean()
        loss.backward()
        optimizer.step()
        after(loss)

def told(call, **limits):
    try:
        with tpuprof.expect(**limits):
            call()
    except tpuprof.ExpectationError as error:
        return error.problems
    except tpuprof.errors.TpuprofError as error:
        return [str(error)]
    return []

facts = {}
facts["clean"] = told(lambda: loop(4), recompiles=0, device_to_host_syncs=0)
facts["shape"] = told(lambda: loop(5, rows=lambda step: 9 if step == 3 else 4), recompiles=0)
facts["read"] = told(lambda: loop(3, after=lambda loss: loss.item()), device_to_host_syncs=0)  # READ
facts["moved"] = told(lambda: loop(3, after=lambda loss: loss.to("cpu")), device_to_host_syncs=0)
facts["host"] = told(lambda: loop(3, after=lambda loss: torch.ones(2).sum().item()), device_to_host_syncs=0)
facts["many"] = told(lambda: loop(3), max_graphs_per_step=1)
facts["fallbacks"] = told(lambda: loop(3), aten_fallbacks=0)
print("FACTS " + json.dumps(facts))
"""

TESTS = """
import sys
import pytest
import torch, torch_tpu
from torch_tpu import _loader
_loader._init_device("tpu")

def loop(count, read=False, rows=lambda step: 4):
    model = torch.nn.Linear(8, 4).to("tpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(count):
        optimizer.zero_grad()
        loss = model(torch.ones(rows(step), 8).to("tpu")).square().mean()
        loss.backward()
        optimizer.step()
        if read:
            loss.item()

@pytest.fixture
def warm():
    loop(2, read=True)

@pytest.mark.tpuprof(recompiles=0, device_to_host_syncs=0)
def test_clean(warm):
    loop(5)
    assert "torch_xla" not in sys.modules

@pytest.mark.tpuprof(device_to_host_syncs=0)
def test_reads():
    loop(5, read=True)

@pytest.mark.tpuprof(recompiles=0)
def test_shapes():
    loop(6, rows=lambda step: 4 + step)

def test_without_the_marker():
    loop(2, read=True)
"""
# What runs tests, which the second environment need not have: pure Python, the same for both.
RUNNER = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py")


def run(arguments, path):
    """A process of the second environment on a CPU plugin, with these folders on its path."""
    python = OTHER / "bin" / "python"
    plugins = sorted(OTHER.glob("lib/python*/site-packages/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"))
    if not python.exists() or not plugins:
        pytest.skip("no environment with torch_tpu: make it with `make torchtpu`")
    environment = {
        **os.environ,
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "TPU_LIBRARY_PATH": str(plugins[-1]),
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        # The checkout may hold the metadata of an installation, whose plugin would be loaded beside the one named here.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    return subprocess.run(
        [python, *arguments], env=environment, capture_output=True, text=True, timeout=280, check=False
    )


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    script = tmp_path_factory.mktemp("expect") / "t.py"
    script.write_text(PROGRAM)
    done = run([script], [ROOT])
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.rpartition("FACTS ")[2])


def line(text):
    return f"t.py:{next(at for at, each in enumerate(PROGRAM.splitlines(), 1) if text in each)}:"


def test_steady_training_has_no_problem(told):
    assert told["clean"] == []


def test_another_shape_is_a_recompile_with_its_line_and_cause(told):
    (problem,) = told["shape"]
    assert line("# FORWARD") in problem
    assert "shape: f32[4,8] became f32[9,8]" in problem


def test_reads_are_counted_with_their_line(told):
    (problem,) = told["read"]
    assert "found 3" in problem
    assert line("# READ") in problem
    assert "found 3" in told["moved"][0]


def test_reading_a_tensor_of_the_host_is_none(told):
    assert told["host"] == []


def test_programs_of_a_step_are_counted(told):
    assert "max_graphs_per_step: expected at most 1" in told["many"][0]


def test_what_torch_tpu_does_not_count_is_refused(told):
    assert "TorchTPU does not count" in told["fallbacks"][0]


def test_the_pytest_marker_counts_where_torch_xla_is_not_installed(tmp_path):
    library = tmp_path / "library"
    library.mkdir()
    for name in RUNNER:
        module = Path(import_module(name).__file__)
        place = module.parent if module.name == "__init__.py" else module
        (library / place.name).symlink_to(place)
    script = tmp_path / "test_train.py"
    script.write_text(TESTS)
    plugins = ["-p", "tpuprof.testing.pytest_plugin", "-p", "no:cacheprovider"]
    done = run(["-m", "pytest", "-q", *plugins, "--rootdir", tmp_path, script], [ROOT, library])
    outcomes = {each for each in done.stdout.splitlines() if each.startswith("FAILED")}
    assert {each.split("::")[1].split()[0] for each in outcomes} == {"test_reads", "test_shapes"}, (
        done.stdout + done.stderr
    )
    assert "2 failed, 2 passed" in done.stdout
