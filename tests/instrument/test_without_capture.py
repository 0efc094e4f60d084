"""Instrumentation while nothing captures: it must be as if it were not there."""

import subprocess
import sys

import pytest

import tpuprof
from tpuprof.instrument.state import STATE


def test_import_brings_no_heavy_package():
    code = "import sys, tpuprof; print([m for m in ('torch', 'numpy', 'rich', 'google.protobuf') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_resolves():
    for name in tpuprof.__all__:
        assert callable(getattr(tpuprof, name))
    with pytest.raises(AttributeError):
        tpuprof.nonsense  # noqa: B018


def test_annotate_as_context_manager_lets_exceptions_through():
    with pytest.raises(KeyError), tpuprof.annotate("x"):
        raise KeyError


def test_annotate_as_decorator_keeps_the_function():
    @tpuprof.annotate("x")
    def double(value: int) -> int:
        """Twice the value."""
        return 2 * value

    assert double(4) == 8
    assert double.__name__ == "double"
    assert double.__doc__ == "Twice the value."


def test_one_annotation_object_inside_itself():
    mark = tpuprof.annotate("x")
    with mark, mark:
        pass
    assert mark._span is None


def test_annotate_modules_runs_without_torch_xla():
    """In a process of its own: a backward pass before torch_xla is there leaves no queue for its devices in autograd."""
    pytest.importorskip("torch")
    program = """if True:
        import sys, torch, tpuprof
        model = torch.nn.Linear(2, 2)
        handle = tpuprof.annotate_modules(model)
        model(torch.ones(1, 2)).sum().backward()
        handle.remove()
        assert not model._forward_hooks and not model._forward_pre_hooks
        assert "torch_xla" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", program], check=True)


def test_armed_without_torch_xla_is_harmless(monkeypatch):
    monkeypatch.setattr(STATE, "armed", True)
    monkeypatch.setitem(sys.modules, "torch_xla", None)
    with tpuprof.annotate("x"):
        pass
    assert STATE.armed


def test_a_failing_listener_reaches_nobody(monkeypatch):
    def broken(_number):
        raise RuntimeError("broken")

    monkeypatch.setattr(STATE, "listeners", [broken])
    monkeypatch.setattr(STATE, "notes", [])
    tpuprof.step(3)
    assert "broken" in STATE.notes[0]
    with tpuprof.step(4):
        pass


def test_profile_refuses_nonsense():
    with pytest.raises(tpuprof.TpuprofError, match="usage"):
        tpuprof.profile("x", steps=0)
