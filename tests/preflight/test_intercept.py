"""Graphs taken from real torch_xla scripts, against the graphs the same scripts run."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch_xla
ANOTHER = pytest.mark.slow("another real trace")

from tpuprof.decode.hlo import HloModule  # noqa: E402
from tpuprof.decode.hlo_proto import read_hlo_proto  # noqa: E402
from tpuprof.decode.hlo_text import parse_hlo_text  # noqa: E402
from tpuprof.errors import Code, TpuprofError  # noqa: E402
from tpuprof.preflight.script import ScriptRun, trace_script  # noqa: E402

DECODER = Path(__file__).resolve().parents[2] / "scenarios" / "preflight" / "decoder.py"
SMALL = [
    "--layers",
    "2",
    "--dim",
    "256",
    "--vocab",
    "1024",
    "--batch",
    "4",
    "--length",
    "128",
    "--steps",
    "3",
]
REAL = """
import runpy, sys, torch_xla
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
print("ALIASES", torch_xla._XLAC._xla_metric_data("InputOutputAliasCount")[2][-1][1], file=sys.stderr)
"""


def run_for_real(tmp_path: Path, arguments: list[str], devices: int) -> tuple[list[HloModule], int]:
    """The graphs torch_xla really ran, as it saves them, and how many buffers the last one donated."""
    saved = tmp_path / "saved"
    env = {
        **os.environ, "PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": str(devices), "JAX_PLATFORMS": "cpu",
        "XLA_SAVE_TENSORS_FILE": str(saved), "XLA_SAVE_TENSORS_FMT": "hlo",
    }  # fmt: skip
    command = [sys.executable, "-c", REAL, str(DECODER), *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=True)
    text = next(tmp_path.glob("saved*")).read_text()
    blocks = [block for block in text.split("## BEGIN_GRAPH\n")[1:] if "HloModule" in block]
    modules = [parse_hlo_text(block[block.index("HloModule") :].split("\n[Schedule")[0]) for block in blocks]
    aliases = next(line for line in done.stderr.splitlines() if line.startswith("ALIASES")).split()[1]
    return [each for each in modules if len(each.entry) > 100], int(float(aliases))


def signature(module: HloModule) -> Counter[tuple[str, str]]:
    return Counter((each.opcode, str(each.shape)) for each in module.instructions())


@pytest.mark.parametrize(("variant", "devices"), [("loop", 1), pytest.param("fsdp_scan", 4, marks=ANOTHER)])
def test_the_steady_graph_is_the_one_that_really_runs(tmp_path, variant, devices):
    arguments = ["--variant", variant, *SMALL]
    (tmp_path / "trace").mkdir()
    trace = trace_script(
        ScriptRun(str(DECODER), arguments, {"TPUPROF_PREFLIGHT_CHECK": "1"}, devices), tmp_path / "trace"
    )
    real, aliases = run_for_real(tmp_path, arguments, devices)
    assert signature(read_hlo_proto(trace.steady.proto)) == signature(real[-1])
    assert len(trace.steady.donors) == aliases
    assert trace.is_steady
    assert trace.spmd == (devices > 1)
    # One of the script's own inputs is there as data already, and so needs no computing.
    assert [each for each in trace.warnings if not each.startswith("1 tensors")] == []


def script(tmp_path: Path, body: str) -> str:
    path = tmp_path / "train.py"
    path.write_text("import torch, torch_xla\nfrom torch import nn\n" + body)
    return str(path)


def trace_of(tmp_path: Path, body: str, **options: object):
    folder = tmp_path / "trace"
    folder.mkdir()
    return trace_script(ScriptRun(script(tmp_path, body), **options), folder)


LOOP = """
device = torch_xla.device()
model = nn.Linear(SIZE, SIZE, bias=False).to(torch.bfloat16).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    loss = model(torch.ones(8, SIZE, dtype=torch.bfloat16).to(device)).float().mean()
    loss.backward()
    optimizer.step()
    EXTRA
    torch_xla.sync()
"""


def loop(size: int, extra: str = "pass") -> str:
    return LOOP.replace("SIZE", str(size)).replace("EXTRA", extra)


@ANOTHER
def test_a_model_larger_than_this_machine_is_traced_without_being_made(tmp_path):
    # 100,000 squared in two bytes: 20 GB; gradient and weight in float before: twice and three times that.
    trace = trace_of(tmp_path, loop(100_000))
    assert trace.unmade_bytes >= 20_000_000_000
    assert "weight" in trace.steady.parameter_names
    shapes = [each.shape for each in read_hlo_proto(trace.steady.proto).entry.parameters()]
    assert max(shape.bytes for shape in shapes) == 20_000_000_000


@ANOTHER
def test_reading_a_value_cuts_a_graph_as_it_does_for_real(tmp_path):
    trace = trace_of(tmp_path, loop(64, "assert loss.item() == 1.0 and bool(loss > 0)"))
    kinds = Counter(each.kind for each in trace.graphs)
    assert kinds["read"] >= 2
    assert trace.reads >= 4
    assert trace.steady.kind == "step"


@ANOTHER
def test_source_lines_are_the_scripts(tmp_path):
    trace = trace_of(tmp_path, loop(64))
    module = read_hlo_proto(trace.steady.proto)
    lines = {each.source for each in module.instructions() if each.opcode == "dot" and each.source_file}
    assert any(line.endswith("train.py:9") for line in lines)


@ANOTHER
def test_a_script_that_sets_the_device_itself_is_traced_all_the_same(tmp_path):
    body = "import os\n" + loop(64)
    path = tmp_path / "train.py"
    path.write_text(
        "import os\nos.environ['PJRT_DEVICE'] = 'TPU'\nimport torch, torch_xla\nfrom torch import nn\n" + body
    )
    (tmp_path / "trace").mkdir()
    assert trace_script(ScriptRun(str(path)), tmp_path / "trace").is_steady


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("raise ValueError('no data here')", Code.PREFLIGHT_SCRIPT, "no data here"),
        ("print('done')", Code.PREFLIGHT_NO_GRAPH, "without running anything"),
    ],
)
@ANOTHER
def test_scripts_without_a_step_are_clear_errors(tmp_path, body, code, words):
    with pytest.raises(TpuprofError) as caught:
        trace_of(tmp_path, body)
    assert caught.value.code is code
    assert words in str(caught.value)


@ANOTHER
def test_a_script_that_compiles_anew_in_each_step(tmp_path):
    body = """
device = torch_xla.device()
weight = nn.Parameter(torch.ones(1, device=device))
optimizer = torch.optim.SGD([weight], lr=0.1)
for size in range(1, 99):
    (torch.ones(size * 8).to(device) * weight).sum().backward()
    optimizer.step()
    torch_xla.sync()
"""
    trace = trace_of(tmp_path, body)
    assert trace.trains
    assert not trace.is_steady
    assert len(trace.search.updates) == 6
    assert any("compiles again" in each for each in trace.warnings)


@ANOTHER
def test_a_module_of_a_package_runs_as_python_m_runs_it(tmp_path, monkeypatch):
    package = tmp_path / "project" / "training"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "sizes.py").write_text("SIZE = 64")
    (package / "main.py").write_text(
        "import torch, torch_xla\nfrom torch import nn\nfrom .sizes import SIZE\n"
        + LOOP.replace("EXTRA", "pass")
    )
    monkeypatch.chdir(package.parent)
    (tmp_path / "trace").mkdir()
    assert trace_script(ScriptRun("training.main", module=True), tmp_path / "trace").is_steady


@ANOTHER
def test_the_graph_is_the_same_from_every_working_directory(tmp_path, monkeypatch):
    path = script(tmp_path, loop(64))
    found = []
    for name, given in ((tmp_path, "train.py"), (tmp_path.parent, path), (tmp_path / "sub", "../train.py")):
        name.mkdir(exist_ok=True)
        monkeypatch.chdir(name)
        folder = tmp_path / f"trace-{len(found)}"
        folder.mkdir()
        found.append(trace_script(ScriptRun(given), folder).steady.fingerprint)
    assert len(set(found)) == 1


@ANOTHER
def test_without_an_update_the_largest_graph_is_shown_and_called_no_step(tmp_path):
    body = """
device = torch_xla.device()
weight = torch.ones(64, 64).to(device)
for size in (8, 64, 16):
    y = (torch.ones(size, 64).to(device) @ weight).sum()
    torch_xla.sync()
"""
    trace = trace_of(tmp_path, body)
    assert not trace.trains
    assert [count for _, count in trace.iteration] == [1]
    assert any("not a training step" in each for each in trace.warnings)


def test_a_library_that_asks_for_torch_xla_before_it_imports_it_does_not_train(tmp_path):
    """As HF Trainer, Accelerate and Lightning do."""
    asks = "import importlib.util\nfor name in ('torch_xla', 'torch_xla.core', 'jax'):\n    importlib.util.find_spec(name)\n"
    trace = trace_of(tmp_path, asks + loop(64, "\n    if step > 4: raise SystemExit('it trains')"))
    assert trace.is_steady
    assert [count for _, count in trace.iteration] == [1]


@pytest.mark.parametrize("end", ["raise RuntimeError('boom')", "os.kill(os.getpid(), 9)", "os.abort()"])
@ANOTHER
def test_a_script_that_dies_before_its_step_is_known_has_no_verdict(tmp_path, end):
    with pytest.raises(TpuprofError) as caught:
        trace_of(tmp_path, "import os\n" + loop(64, f"\n    if step == 1: {end}"))
    words = {"r": "RuntimeError: boom", "os.k": "SIGKILL", "os.a": "SIGABRT"}
    assert next(word for start, word in words.items() if end.startswith(start)) in str(caught.value)
    assert "before its step was known" in str(caught.value)
    # What was taken until then is whole.
    assert json.loads((tmp_path / "trace" / "manifest.json").read_text())["done"] is False


def test_a_call_that_needs_values_on_the_host_is_named(tmp_path):
    body = """
weight = nn.Linear(1024, 1024).to(torch_xla.device()).weight
torch.lgamma(weight).sum().backward()
"""
    with pytest.raises(
        TpuprofError, match=r"SIG(SEGV|ABRT).*last call on the device was aten.lgamma"
    ) as caught:
        trace_of(tmp_path, body)
    assert "on the host" in str(caught.value)


MIXED = """
import copy
device = torch_xla.device()
first, second = nn.Linear(64, 32).to(device), nn.Linear(32, 64).to(device)
averaged = copy.deepcopy(first)
for batch in range(4):
    with torch.no_grad():
        first(torch.randn(128, 64).to(device)).sum(); torch_xla.sync()
one, two = torch.optim.SGD(first.parameters()), torch.optim.Adam(second.parameters())
for step in range(99):
    for turn in range(3):
        one.zero_grad()
        loss = first(second(torch.randn(8, 32).to(device)).detach()).sum()
        loss.backward()
        one.step()
        torch_xla.sync()
        assert not torch.isnan(loss).item() and torch.isfinite(loss).all() and loss.item() < 1e4
        assert torch.isnan(loss).sum().item() == 0 and loss.argmax().item() == 0 and bool((loss > 0).any())
    two.zero_grad()
    second(torch.randn(8, 32).to(device)).sum().backward()
    two.step()
    torch_xla.sync()
"""


@ANOTHER
def test_the_iteration_is_chosen_by_what_graphs_update(tmp_path):
    trace = trace_of(tmp_path, MIXED)
    assert trace.is_steady
    updates = {graph.number: count for graph, count in trace.iteration if graph.updates}
    assert sorted(updates.values()) == [1, 3]
    assert {graph.updates for graph, _ in trace.iteration if graph.updates} == {2}
    assert all(graph.small for graph, _ in trace.iteration if not graph.updates)
    assert trace.steady.updates
    # The averaged copy lives beside every graph and is used by none; the second's update does not use the first.
    beside = {
        count: sum(each["name"] in ("averaged.weight", "first.weight") for each in graph.resident)
        for graph, count in trace.iteration
        if graph.updates
    }
    assert beside == {3: 1, 1: 2}


@ANOTHER
def test_a_launched_script_is_traced_in_one_process_with_its_gradients_reduced(tmp_path):
    body = """
import torch_xla.core.xla_model as xm
def main(index):
    device = torch_xla.device()
    model = nn.Linear(32, 32).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        loss = model(torch.ones(8, 32).to(device)).sum()
        loss.backward()
        xm.optimizer_step(optimizer)
        torch_xla.sync()
        print(loss)
if __name__ == "__main__":
    torch_xla.launch(main)
"""
    trace = trace_of(tmp_path, body, devices=4)
    assert trace.is_steady
    assert trace.steady.replicated
    assert trace.steady.devices(4) == 4
    assert [each.opcode for each in read_hlo_proto(trace.steady.proto).instructions()].count(
        "all-reduce"
    ) == 1
