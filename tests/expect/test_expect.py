"""`tpuprof.expect` around real training on the CPU device, in processes of their own."""

import subprocess
import sys

import pytest

from tests import scripts
from tpuprof.errors import TpuprofError
from tpuprof.instrument.call_watch import Call, what_changed
from tpuprof.testing.expect import ExpectationError, expect

LOOP = """
def loop(count, rows=lambda index: 4, after=lambda loss: None, before=lambda loss: None):
    for index in range(count):
        loss = train(rows(index))
        before(loss)  # BEFORE
        torch_xla.sync()  # CUT
        after(loss)

def told(call, **limits):
    try:
        with tpuprof.expect(**limits):
            call()
    except tpuprof.ExpectationError as error:
        return error.problems
    return []

ALL = dict(recompiles=0, device_to_host_syncs=0, aten_fallbacks=0, max_graphs_per_step=1)
"""


def line(folder, text):
    lines = (folder / "t.py").read_text("utf-8").splitlines()
    return f"t.py:{next(number for number, each in enumerate(lines, 1) if text in each)}:"


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    pytest.importorskip("torch_xla")
    folder = tmp_path_factory.mktemp("expect")
    code = """
facts(one_step=told(lambda: loop(1), **ALL))
facts(clean=told(lambda: loop(4), **ALL))
facts(shape=told(lambda: loop(6, rows=lambda index: 9 if index == 4 else 4), **ALL))
facts(allowed=told(lambda: loop(6, rows=lambda index: 11 if index == 4 else 4), recompiles=1))
facts(within_warmup=told(lambda: loop(4, rows=lambda index: 13), recompiles=0))
facts(no_warmup=told(lambda: loop(4, rows=lambda index: 15), recompiles=0, warmup_steps=0))
facts(late_read=told(lambda: loop(4, after=lambda loss: loss.item()), **ALL))  # LATE
facts(early_read=told(lambda: loop(4, before=lambda loss: float(loss)), **ALL))  # EARLY
facts(branch=told(lambda: loop(4, after=lambda loss: bool(loss > 1e9)), device_to_host_syncs=0))
facts(printed=told(lambda: loop(3, after=lambda loss: f"{loss}"), device_to_host_syncs=0))
facts(fallback=told(lambda: loop(4, after=lambda loss: torch.nonzero(loss)), aten_fallbacks=0))
kept = []
facts(other_op=told(lambda: loop(5, before=lambda loss: kept.append(loss.sin() if len(kept) == 4 else loss)), recompiles=0))

def marked():
    for index in range(4):
        tpuprof.step(index)
        train(); torch_xla.sync(); train(); torch_xla.sync()
facts(marked=told(marked, **ALL))
facts(nothing=told(lambda: None, **ALL))
facts(cpu=told(lambda: torch.ones(3).sum().item(), **ALL))

try:
    with tpuprof.expect(**ALL):
        raise KeyError("of the program")
except KeyError:
    facts(passed_through=True)

@tpuprof.expect(recompiles=0)
def decorated():
    loop(3)
decorated(); decorated()
extension = torch_xla._XLAC
from tpuprof.instrument.state import STATE
facts(left_behind=[STATE.listeners != [], (getattr(extension._xla_step_marker, "__module__", "") or "").startswith("tpuprof"), extension._xla_sync_multi.__name__ == "watched"])
"""
    path = scripts.write(folder / "t.py", LOOP + code)
    return {"folder": folder, **scripts.facts(scripts.run(path))}


@pytest.mark.torch_xla
def test_steady_training_passes(told):
    assert told["clean"] == []


@pytest.mark.torch_xla
def test_a_recompile_is_told_with_what_changed_and_where(told):
    (problem,) = told["shape"]
    assert problem.startswith("recompiles: expected at most 0, found 1")
    assert "shape: f32[4,8] became f32[9,8]" in problem
    assert line(told["folder"], "# CUT") in problem
    assert (
        f"in ones at {told['folder']}/{line(told['folder'], 'x = torch.ones(rows, 8)')[:-1]} (step 4)"
        in problem
    )
    assert "step 4" in problem


@pytest.mark.torch_xla
def test_another_op_is_told(told):
    (problem,) = told["other_op"]
    assert "sin" in problem


@pytest.mark.torch_xla
def test_limits_and_warmup(told):
    assert told["allowed"] == []
    assert told["within_warmup"] == []
    assert "found 1" in told["no_warmup"][0]
    assert "the first graph" in told["no_warmup"][0]


@pytest.mark.torch_xla
def test_reads_are_told_with_their_line(told):
    (late,) = told["late_read"]
    assert late.startswith("device_to_host_syncs: expected at most 0, found 4")
    assert line(told["folder"], "# LATE") in late
    assert "4 times" in late
    assert len(told["branch"]) == len(told["printed"]) == 1


@pytest.mark.torch_xla
def test_a_read_before_the_cut_runs_a_graph_of_its_own(told):
    reads, graphs = told["early_read"]
    assert reads.startswith("device_to_host_syncs")
    assert graphs.startswith("max_graphs_per_step: expected at most 1, found 2")
    assert line(told["folder"], "# EARLY") in graphs
    assert line(told["folder"], "# CUT") in graphs


@pytest.mark.torch_xla
def test_fallbacks_are_told_by_op(told):
    assert "aten::nonzero" in told["fallback"][0]


@pytest.mark.torch_xla
def test_marked_steps_may_hold_several_cuts(told):
    assert told["marked"][0].startswith("max_graphs_per_step: expected at most 1, found 2")


@pytest.mark.torch_xla
def test_what_could_not_be_counted_does_not_pass(told):
    assert "warm-up" in told["one_step"][0]
    assert "no graph ran" in told["nothing"][0]
    assert "no graph ran" in told["cpu"][0]


@pytest.mark.torch_xla
def test_the_programs_own_exceptions_pass_and_nothing_is_left_behind(told):
    assert told["passed_through"]
    assert told["left_behind"] == [False, False, False]


@pytest.mark.torch_xla
@pytest.mark.slow("a torch_xla process of its own")
def test_the_graphs_are_the_same_with_and_without(tmp_path):
    pytest.importorskip("torch_xla")
    code = """
def hashed():
    train()
    return torch_xla._XLAC._get_graph_hash([parameter for parameter in model.parameters()]).hex()
train(); torch_xla.sync()
plain = hashed(); torch_xla.sync()
with tpuprof.expect(device_to_host_syncs=0):
    watched = hashed(); torch_xla.sync()
facts(same=plain == watched)
"""
    assert scripts.facts(scripts.run(scripts.write(tmp_path / "t.py", code)))["same"]


@pytest.mark.torch_xla
@pytest.mark.slow("torch.compile in a process of its own")
def test_graphs_of_torch_compile_are_watched_and_not_touched(tmp_path):
    pytest.importorskip("torch_xla")
    code = """
compiled = torch.compile(model, backend="openxla")
try:
    with tpuprof.expect(recompiles=0, device_to_host_syncs=0, max_graphs_per_step=1):
        for index in range(6):
            with torch.no_grad():
                compiled(torch.ones(4, 8).to(device))
            torch_xla.sync()
    facts(problems=[])
except tpuprof.ExpectationError as error:
    facts(problems=error.problems)
facts(breaks=len(torch._dynamo.utils.counters["graph_break"]))
"""
    found = scripts.facts(scripts.run(scripts.write(tmp_path / "t.py", code)))
    assert found["breaks"] == 0
    assert found["problems"] == []


@pytest.mark.torch_xla
@pytest.mark.slow("another real capture")
def test_a_capture_may_run_inside(tmp_path):
    pytest.importorskip("torch_xla")
    code = """
try:
    with tpuprof.expect(recompiles=0, max_graphs_per_step=1):
        with tpuprof.profile(sys.argv[1], warmup=2, steps=3) as capture:
            for index in range(9):
                train(); torch_xla.sync(); capture.step()
        train(7); torch_xla.sync()
except tpuprof.ExpectationError as error:
    facts(problems=error.problems)
from tpuprof.analysis.analyze import analyze_run
facts(steps=analyze_run(sys.argv[1]).steps.count)
"""
    found = scripts.facts(scripts.run(scripts.write(tmp_path / "t.py", code), tmp_path / "run"))
    assert found["steps"] == 3
    assert len(found["problems"]) == 1
    assert "f32[4,8] became f32[7,8]" in found["problems"][0]


PLUGIN = """
import pytest

@pytest.fixture
def warm():
    train().item()

@pytest.mark.tpuprof(recompiles=0, device_to_host_syncs=0)
def test_steady(warm):
    for _ in range(4):
        train(); torch_xla.sync()

@pytest.mark.tpuprof(device_to_host_syncs=0)
def test_reading():
    for _ in range(3):
        loss = train(); torch_xla.sync()
    assert loss.item() > -1

def test_unmarked():
    assert train().item() > -1
"""


def pytest_run(folder, code, *arguments, prelude=True):
    scripts.write(folder / "test_it.py", code, prelude=prelude)
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "tpuprof.testing.pytest_plugin",
            "-p",
            "no:cacheprovider",
            "--strict-markers",
            *arguments,
            ".",
        ],
        cwd=folder,
        env=scripts.environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.torch_xla
@pytest.mark.slow("another torch_xla process; the plugin itself runs below")
def test_the_marker_does_the_same_for_a_test(tmp_path):
    pytest.importorskip("torch_xla")
    done = pytest_run(tmp_path, PLUGIN)
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "device_to_host_syncs: expected at most 0, found 1" in done.stdout
    assert "test_it.py:" in done.stdout


def test_the_plugin_imports_nothing_heavy(tmp_path):
    code = """
import sys
def test_it():
    heavy = {"torch", "torch_xla", "numpy", "google.protobuf", "rich", "typer", "tpuprof.testing.expect"}
    assert not heavy & set(sys.modules)
"""
    done = pytest_run(tmp_path, code, prelude=False)
    assert "1 passed" in done.stdout, done.stdout
    markers = pytest_run(tmp_path, code, "--markers", prelude=False)
    assert "@pytest.mark.tpuprof(recompiles=None" in markers.stdout


@pytest.mark.parametrize("limits", [{}, {"recompiles": -1}, {"recompiles": 0, "warmup_steps": -1}])
def test_an_expectation_of_nothing_is_refused(limits):
    with pytest.raises(TpuprofError, match="usage"):
        expect(**limits)


def test_the_error_is_an_assertion_error():
    assert issubclass(ExpectationError, AssertionError)
    assert "a\nb" in str(ExpectationError(["a", "b"]))


def call(name="mul", line="t.py:3", result=("f32[4]",), numbers=()):
    return Call(name, line, tuple(result), tuple(numbers))


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ([call(result=["f32[5]"])], "shape: f32[4] became f32[5] in mul at t.py:3"),
        ([call(result=["bf16[4]"])], "dtype: f32[4] became bf16[4] in mul at t.py:3"),
        ([call("add")], "graph: add at t.py:3 where the step before ran mul at t.py:3"),
        ([call(), call("sin", "t.py:9")], "graph: 1 more calls, from sin at t.py:9 on"),
        ([], "graph: 1 fewer calls, from mul at t.py:3 on"),
        ([call(numbers=["0.5"])], "constant: 0.1 became 0.5 in mul at t.py:3"),
        ([call(numbers=["0.1"])], "unknown: the step made the same torch calls as the one before"),
    ],
)
def test_what_changed_between_two_steps(now, expected):
    assert what_changed([call(numbers=["0.1"])], now) == expected


def test_another_framework_is_refused_since_nothing_could_be_counted(tmp_path):
    pytest.importorskip("jax")
    code = "import jax, tpuprof\nwith tpuprof.expect(recompiles=0):\n    print('counted')\n"
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=300, cwd=tmp_path
    )
    assert done.returncode == 1
    assert "trains with jax" in done.stderr and "counted" not in done.stdout
