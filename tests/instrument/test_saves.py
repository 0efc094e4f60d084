"""A save of a training library is a checkpoint as a whole: also what it does around `torch.save`."""

import sys
from types import SimpleNamespace

import pytest

from tpuprof.instrument import host_events, wrapped_calls
from tpuprof.instrument.saves import SAVES
from tpuprof.own_events import CHECKPOINT

_METHODS = [(module, owner, name) for module, owner, name in SAVES if owner]


@pytest.fixture
def opened(monkeypatch):
    spans = []
    monkeypatch.setattr(host_events, "open_span", lambda event, kind: spans.append(event) or event)
    monkeypatch.setattr(wrapped_calls, "close_span", lambda span: spans.append("end"))
    yield spans
    host_events.remove()


@pytest.mark.parametrize(("module", "owner", "name"), _METHODS)
def test_a_librarys_save_is_a_checkpoint(monkeypatch, opened, module, owner, name):
    saver = type(owner, (), {name: lambda self, path: f"saved {path}"})
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(**{owner: saver}))
    assert host_events.install() == []
    assert getattr(saver(), name)("here") == "saved here"
    assert opened == [CHECKPOINT, "end"]
    host_events.remove()
    assert getattr(saver(), name)("there") == "saved there"
    assert opened == [CHECKPOINT, "end"]


@pytest.mark.parametrize(("module", "owner", "name"), _METHODS)
def test_a_version_without_it_is_no_failure(monkeypatch, opened, module, owner, name):
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(**{owner: type(owner, (), {})}))
    assert host_events.install() == []
    monkeypatch.setitem(sys.modules, module, SimpleNamespace())
    assert host_events.install() == []
