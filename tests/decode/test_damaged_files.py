"""A slice of what `fuzz/mutate.py` tries: damaged files are read or refused, whatever they say."""

import gzip
import importlib.util
from pathlib import Path

import pytest

from tests.builders import TraceBuilder
from tpuprof.decode import chrome_trace
from tpuprof.decode.load import load
from tpuprof.decode.text_damage import MIN_REPLACED, was_text
from tpuprof.errors import Code, TpuprofError

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


def as_text(data):
    """What is left of bytes that a tool read as UTF-8 and wrote again."""
    return data.decode("utf-8", "replace").encode()


@pytest.mark.parametrize("zipped", [False, True])
def test_a_binary_file_that_was_treated_as_text_is_called_so(tmp_path, zipped):
    trace = TraceBuilder()
    for number in range(300):
        trace.host().line("python").event(f"op{number % 200}", number * 1000, 900)
    data = gzip.compress(trace.to_bytes()) if zipped else trace.to_bytes()
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(data)
    assert len(load(path).planes) == 1
    path.write_bytes(as_text(data))
    with pytest.raises(TpuprofError) as caught:
        load(path)
    assert caught.value.code is Code.CORRUPT
    assert "treated this binary file as text" in caught.value.message
    assert "*.pb binary" in caught.value.hint


@pytest.mark.parametrize(
    ("data", "damaged"),
    [
        (b"\xef\xbf\xbd" * (MIN_REPLACED - 1), False),
        (b"\xef\xbf\xbd" * MIN_REPLACED, True),
        (b"\xef\xbf\xbd" * MIN_REPLACED + b"\xff" * 9, True),
        (b"\xef\xbf\xbd" * MIN_REPLACED + b"\xff" * 10, False),
        (b"\xff" * 100, False),
    ],
)
def test_from_how_many_replaced_bytes_on_a_file_was_treated_as_text(data, damaged):
    assert was_text(data) is damaged
