"""The report cache: what it serves is what an analysis would say, and nothing it meets breaks a command."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.builders import TraceBuilder, op
from tpuprof.analysis import cache
from tpuprof.analysis.analyze import analyze_run
from tpuprof.cli.main import app
from tpuprof.cli.opening import open_report
from tpuprof.decode.find import find
from tpuprof.report.load import report_from


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TPUPROF_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def trace(tmp_path):
    made = TraceBuilder()
    python = made.host().line("python")
    device = made.tpu(0)
    for step in range(3):
        python.event("step", step * 1000, 900, _r=1, step_num=step)
        device.line("XLA Modules").event("train(1)", step * 1000, 700)
        device.line("XLA Ops").event(**op("fusion.1"), start=step * 1000, duration=600)
    return made.write(tmp_path / "logs" / "vm.xplane.pb")


def analyze(*args):
    done = CliRunner().invoke(app, ["analyze", *map(str, args)], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def fail(*_args, **_options):
    raise AssertionError("analyzed again")


def entries():
    return sorted(cache.folder().glob("*")) if cache.folder().is_dir() else []


def test_the_second_run_is_served_from_the_cache(trace, monkeypatch):
    first = analyze(trace, "--json"), analyze(trace)
    monkeypatch.setattr("tpuprof.analysis.analyze.report_of", fail)
    assert (analyze(trace, "--json"), analyze(trace)) == first


def test_a_cached_report_is_the_analysed_one(trace):
    report = analyze_run(trace)
    assert open_report(trace) == report
    assert open_report(trace) == report
    assert report_from(json.loads(json.dumps(report.to_dict()))) == report


def test_without_cache_nothing_is_kept_or_served(trace):
    analyze(trace, "--no-cache")
    assert entries() == []
    analyze(trace)
    kept = entries()[0]
    kept.write_bytes(b"never read")
    analyze(trace, "--no-cache")
    assert kept.read_bytes() == b"never read"


def test_other_bytes_of_the_same_size_and_time_are_another_key(trace):
    before, state = cache.key(find(trace)), trace.stat()
    data = trace.read_bytes()
    trace.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(trace, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert cache.key(find(trace)) != before


def test_a_later_time_of_change_is_another_key(trace):
    before = cache.key(find(trace))
    os.utime(trace, ns=(0, trace.stat().st_mtime_ns + 1))
    assert cache.key(find(trace)) != before


def test_what_tpuprof_noted_of_the_run_is_part_of_the_key(trace):
    note = trace.parent / "tpuprof" / "run.json"
    note.parent.mkdir()
    note.write_text('{"schema": "tpuprof.run/1"}')
    before = cache.key(find(trace))
    note.write_text('{"schema": "tpuprof.run/1", "x": 1}')
    assert cache.key(find(trace)) != before


def test_another_tpuprof_has_other_keys(trace, tmp_path, monkeypatch):
    before = cache.key(find(trace))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "module.py").write_text("")
    monkeypatch.setattr(cache, "_PACKAGE", tmp_path / "other")
    assert cache.key(find(trace)) != before


@pytest.mark.parametrize("damage", [b"", b"\xff", b"{}", None])
def test_a_damaged_entry_is_passed_over(trace, damage):
    whole = analyze(trace, "--json")
    path = entries()[0]
    path.write_bytes(path.read_bytes()[:-3] if damage is None else damage)
    assert analyze(trace, "--json") == whole
    assert path.read_bytes().endswith(whole.encode())  # written again


def test_the_least_recently_used_go_when_it_is_full(monkeypatch):
    monkeypatch.setattr(cache, "MAX_BYTES", 4000)
    for number, name in enumerate("abc"):
        cache.write(name, "x" * 900)
        os.utime(cache.folder() / f"{name}.report.json", ns=(0, number))
    assert cache.read("a")
    cache.write("d", "x" * 900)
    cache.write("e", "x" * 900)
    assert [name for name in "abcde" if cache.read(name)] == ["a", "c", "d", "e"]
    assert cache.usage().bytes <= 4000


def test_what_would_fill_a_quarter_of_it_is_not_kept(monkeypatch):
    monkeypatch.setattr(cache, "MAX_BYTES", 4000)
    cache.write("a", "x" * 1000)
    cache.write("b", "x" * 1001)
    assert [name for name in "ab" if cache.read(name)] == ["a"]


def test_a_folder_that_cannot_be_made_is_no_error(trace, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TPUPROF_CACHE_DIR", str(tmp_path / "file"))
    assert analyze(trace, "--json") == analyze(trace, "--json")
    assert cache.usage().entries == 0


def test_it_lies_in_the_users_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("TPUPROF_CACHE_DIR")
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / name))
    assert cache.folder() == tmp_path / "tpuprof" / "reports"


def test_doctor_tells_where_it_is_and_what_it_takes(trace):
    from tpuprof.capture.checks import run_checks

    analyze(trace)
    told = next(check for check in run_checks() if check.name == "report cache")
    assert told.state == "ok"
    assert told.found.startswith(f"{Path(os.environ['TPUPROF_CACHE_DIR']) / 'reports'}: 1 reports, 0.0 MB")
