"""What `analyze` is to read is begun before the command line is there, and comes out as it would without."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tpuprof.analyse import analyse_run
from tpuprof.cli import opening
from tpuprof.cli.entry import to_analyse
from tpuprof.report.as_json import to_json

SAMPLE = Path(__file__).resolve().parents[2] / "sample_traces" / "decoder_scan"


@pytest.mark.parametrize(
    ("arguments", "begun"),
    [
        (["analyze", "HERE"], True),
        (["analyze", "--json", "HERE", "--no-cache"], True),
        (["analyze", "HERE", "--what-if", "tracing-bound"], False),
        (["analyze", "HERE", "--what-if=tracing-bound"], False),
        (["analyze", "HERE", "-h"], False),
        (["analyze", "HERE", "--no-such-option"], False),
        (["analyze", "HERE", "HERE"], False),
        (["analyze", "missing"], False),
        (["analyze"], False),
        (["report", "HERE"], False),
        ([], False),
    ],
)
def test_only_a_plain_analysis_is_begun(tmp_path, arguments, begun):
    arguments = [str(tmp_path) if each == "HERE" else each for each in arguments]
    assert to_analyse(arguments) == (str(tmp_path) if begun else "")


def analyze(*arguments, cache):
    command = [sys.executable, "-m", "tpuprof", "analyze", *map(str, arguments)]
    env = {"TPUPROF_CACHE_DIR": str(cache), "PATH": ""}
    return subprocess.run(command, check=False, capture_output=True, text=True, env=env)


def test_anew_from_the_cache_and_without_it_say_the_same(tmp_path):
    expected = json.loads(to_json(analyse_run(SAMPLE)))
    for more in ((), (), ("--no-cache",)):
        done = analyze(SAMPLE, "--json", *more, cache=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout) == expected
    assert len(list((tmp_path / "reports").iterdir())) == 1


def test_a_saved_report_is_opened_as_such(tmp_path):
    saved = tmp_path / "saved.json"
    saved.write_text(to_json(analyse_run(SAMPLE)))
    done = analyze(saved, "--json", cache=tmp_path)
    assert json.loads(done.stdout) == json.loads(saved.read_text())
    assert not (tmp_path / "reports").exists()


def test_what_is_wrong_is_told_as_ever(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    done = analyze(empty, cache=tmp_path)
    assert done.returncode == 2
    assert "input-no-trace" in done.stderr


@pytest.mark.parametrize("use_cache", [True, False])
def test_what_was_begun_is_used_once(tmp_path, monkeypatch, use_cache):
    monkeypatch.setenv("TPUPROF_CACHE_DIR", str(tmp_path / "cache"))
    run = tmp_path / "run"
    shutil.copytree(SAMPLE, run)
    begun = []
    real = opening._begin
    monkeypatch.setattr(opening, "_begin", lambda *given: begun.append(given) or real(*given))
    opening.begin_opening(str(run), use_cache=use_cache)
    first = opening.open_json(run, use_cache=use_cache)
    assert begun == [(run, use_cache)]
    assert opening.open_json(run, use_cache=use_cache) == first
    assert begun == [(run, use_cache)] * 2
