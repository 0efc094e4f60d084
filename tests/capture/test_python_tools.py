"""Debugging tools that are on are found, and the report says that they slow the host."""

import cProfile
import sys
import threading
import tracemalloc
from types import SimpleNamespace

import pytest

from tests import scripts
from tpuprof.analysis.analyze import analyze_run
from tpuprof.capture import python_tools as module
from tpuprof.capture.python_tools import python_tools
from tpuprof.model.python_tools import said_with_the_verdict


@pytest.fixture(autouse=True)
def nothing_else_is_on(monkeypatch):
    """Tests may run under coverage, or in development mode, themselves."""
    monkeypatch.setattr(module, "_development_mode", lambda: False)
    monkeypatch.delenv("PYTHONMALLOC", raising=False)
    before = sys.gettrace(), sys.getprofile()
    sys.settrace(None)
    sys.setprofile(None)
    yield
    sys.settrace(before[0])
    sys.setprofile(before[1])


def noting(frame, event, argument):
    return None


def test_nothing_is_on():
    assert python_tools() == []


def test_memory_tools(monkeypatch):
    tracemalloc.start()
    try:
        assert python_tools() == ["tracemalloc"]
    finally:
        tracemalloc.stop()
    monkeypatch.setenv("PYTHONMALLOC", "debug")
    assert python_tools() == ["PYTHONMALLOC"]
    monkeypatch.setenv("PYTHONMALLOC", "malloc")
    assert python_tools() == []
    monkeypatch.setattr(module, "_development_mode", lambda: True)
    assert python_tools() == ["Python's development mode (-X dev)"]


@pytest.mark.parametrize(
    ("owner", "install", "shown"),
    [
        (sys, "settrace", f"settrace of {__name__}"),
        (sys, "setprofile", f"setprofile of {__name__}"),
        (threading, "settrace", f"settrace of {__name__}"),
    ],
)
def test_hooks_are_called_by_their_module(owner, install, shown):
    getattr(owner, install)(noting)
    try:
        assert python_tools() == [shown]
    finally:
        getattr(owner, install)(None)


def test_known_tools_have_their_names():
    profile = cProfile.Profile()
    profile.enable()
    try:
        assert python_tools() == ["cProfile"]
    finally:
        profile.disable()
    hook = SimpleNamespace(__module__="_pydevd_bundle.pydevd_trace_dispatch")
    assert module._tool(hook, "sys.settrace") == "a debugger (pydevd)"


def test_tools_of_the_interpreter_itself(monkeypatch):
    """Python 3.12 and later."""
    events = {0: ("debugpy", 0), 1: ("coverage", 5)}
    monitoring = SimpleNamespace(
        get_tool=lambda number: events.get(number, (None, 0))[0],
        get_events=lambda number: events[number][1],
    )
    monkeypatch.setattr(sys, "monitoring", monitoring, raising=False)
    assert python_tools() == ["coverage"]


def test_checks_of_each_result(monkeypatch):
    torch = SimpleNamespace(is_anomaly_enabled=lambda: True)
    jax = SimpleNamespace(config=SimpleNamespace(jax_debug_nans=True, jax_disable_jit=False))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "jax", jax)
    assert python_tools() == ["torch.autograd.set_detect_anomaly", "jax_debug_nans"]


def test_a_framework_that_answers_with_an_error_is_no_tool(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace())
    assert python_tools() == []


@pytest.mark.parametrize(
    ("tools", "word", "said"),
    [
        (["pdb"], "tracing", " pdb was on, which slows the host"),
        (["pdb", "tracemalloc"], "sync", " pdb and tracemalloc were on, which slow the host"),
        (["jax_check_tracer_leaks"], "compile", " jax_check_tracer_leaks was on, which slows the host"),
        (["pdb"], "device", ""),
        ([], "tracing", ""),
        (None, "tracing", ""),
    ],
)
def test_the_verdict_says_so_where_a_tool_can_make_it(tools, word, said):
    sentence = said_with_the_verdict({"capture": {"python_tools": tools}}, word)
    assert sentence.startswith(said) and bool(sentence) == bool(said)


# Imports are not traced: they alone would take minutes.
PROGRAM = """
import tracemalloc, torch, torch_xla
tracemalloc.start(20)
torch.manual_seed(0)
device = torch_xla.device()
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(12)]).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(32, 64).to(device)
for step in range(40):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
"""


def test_a_program_under_tracemalloc(tmp_path):
    pytest.importorskip("torch_xla")
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    run = tmp_path / "run"
    done = scripts.capture(run, sys.executable, script)
    assert done.returncode == 0, done.stderr
    report = analyze_run(run)
    first = next(each for each in report.findings if each.status == "failed")
    assert first.rule == "debug-tool-on"
    assert "tracemalloc was on" in first.title
    assert first.savings is None
    assert "tracemalloc was on, which slows the host" in report.verdict.sentence
    assert not [each for each in report.findings if each.category == "tracing" and each.confidence == "high"]
