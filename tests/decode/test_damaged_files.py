"""A slice of what `fuzz/mutate.py` tries: damaged files are read or refused, whatever they say."""

import importlib.util
from pathlib import Path

import pytest

from tpuprof.decode import chrome_trace

PATH = Path(__file__).parents[2] / "fuzz" / "mutate.py"


@pytest.fixture(scope="module")
def mutate():
    spec = importlib.util.spec_from_file_location("mutate", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("target", "count"), [("hlo", 25), ("chrome", 25), ("analyze", 10)])
def test_damaged_files_are_read_or_refused(mutate, target, count, monkeypatch, tmp_path):
    monkeypatch.setattr(mutate, "HERE", tmp_path)
    monkeypatch.setenv("TPUPROF_CACHE_DIR", str(tmp_path))
    assert mutate.run(target, 20_261_122, 600.0, count, say=lambda _text: None) == []


def test_the_fuzzer_sees_what_it_looks_for(mutate, monkeypatch, tmp_path):
    """An exception of a reader is a finding; a refusal is none."""

    def broken(_data, _folder):
        raise KeyError("planted")

    monkeypatch.setattr(mutate, "HERE", tmp_path)
    monkeypatch.setenv("TPUPROF_CACHE_DIR", str(tmp_path))
    monkeypatch.setitem(mutate.TARGETS, "hlo", (mutate.TARGETS["hlo"][0], broken))
    (found, *_) = mutate.run("hlo", 1, 600.0, 1, say=lambda _text: None)
    assert "KeyError: 'planted'" in found
    assert list(tmp_path.glob("crash-hlo-1-0"))
    assert mutate.outcome("analyze", b"no trace", tmp_path) == "refused"


def test_processes_numbered_by_what_numbers_nothing():
    """Found by the fuzzer."""
    named = {"ph": "M", "name": "thread_name", "pid": 1, "tid": {"a": {}}, "args": {"name": "x"}}
    assert chrome_trace.names_of([named, {**named, "name": "process_name", "pid": []}]) == ({}, {})
