"""A plain `analyze` goes past the command line's library, and says what it would say by way of it."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tpuprof.analysis.analyze import analyze_run
from tpuprof.cli.entry import Plain, to_analyze
from tpuprof.report.as_json import to_json

SAMPLE = Path(__file__).resolve().parents[2] / "sample_traces" / "decoder_scan"
# The command line itself, whatever it is asked.
COMMAND_LINE = "from tpuprof.cli.main import main; main()"


@pytest.mark.parametrize(
    ("arguments", "plain"),
    [
        (["analyze", "HERE"], Plain("HERE", frozenset())),
        (["analyze", "--json", "HERE", "--no-cache"], Plain("HERE", frozenset({"--json", "--no-cache"}))),
        (["analyze", "HERE", "--md"], Plain("HERE", frozenset({"--md"}))),
        (["analyze", "HERE", "--md", "--json"], None),
        (["analyze", "HERE", "--what-if", "tracing-bound"], None),
        (["analyze", "HERE", "--what-if=tracing-bound"], None),
        (["analyze", "HERE", "-h"], None),
        (["analyze", "HERE", "--no-such-option"], None),
        (["analyze", "HERE", "HERE"], None),
        (["analyze", "--json"], None),
        (["analyze"], None),
        (["report", "HERE"], None),
        (["--debug", "analyze", "HERE"], None),
        ([], None),
    ],
)
def test_which_arguments_are_plain(arguments, plain):
    assert to_analyze(arguments) == plain


def test_with_a_base_run_the_command_line_is_asked(monkeypatch):
    monkeypatch.setenv("TPUPROF_BASE", "runs/first")
    assert to_analyze(["analyze", "HERE"]) is None


def analyze(*arguments, cache):
    command = [sys.executable, "-m", "tpuprof", "analyze", *map(str, arguments)]
    env = {"TPUPROF_CACHE_DIR": str(cache), "PATH": ""}
    return subprocess.run(command, check=False, capture_output=True, text=True, env=env)


def test_anew_from_the_cache_and_without_it_say_the_same(tmp_path):
    expected = json.loads(to_json(analyze_run(SAMPLE)))
    for more in ((), (), ("--no-cache",)):
        done = analyze(SAMPLE, "--json", *more, cache=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout) == expected
    assert len(list((tmp_path / "reports").iterdir())) == 1


def test_a_saved_report_is_opened_as_such(tmp_path):
    saved = tmp_path / "saved.json"
    saved.write_text(to_json(analyze_run(SAMPLE)))
    done = analyze(saved, "--json", cache=tmp_path)
    assert json.loads(done.stdout) == json.loads(saved.read_text())
    assert not (tmp_path / "reports").exists()


def test_what_is_wrong_is_told_as_ever(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    done = analyze(empty, cache=tmp_path)
    assert done.returncode == 2
    assert "input-no-trace" in done.stderr


@pytest.mark.parametrize("form", [[], ["--json"], ["--md"], ["--md", "--json"]], ids=str)
@pytest.mark.parametrize("path", [SAMPLE, "nowhere"], ids=["sample", "missing"])
def test_it_says_what_the_command_line_says(form, path):
    arguments = ["analyze", str(path), "--no-cache", *form]
    plain, whole = (
        subprocess.run([sys.executable, *how, *arguments], check=False, capture_output=True, text=True)
        for how in (["-m", "tpuprof"], ["-c", COMMAND_LINE])
    )
    assert (plain.returncode, plain.stdout, plain.stderr) == (whole.returncode, whole.stdout, whole.stderr)
    assert plain.returncode == (0 if path == SAMPLE and len(form) < 2 else 2)
    assert plain.stdout or plain.stderr


def test_it_does_not_import_the_command_line(tmp_path):
    command = [sys.executable, "-X", "importtime", "-m", "tpuprof", "analyze", str(SAMPLE), "--json"]
    env = {"TPUPROF_CACHE_DIR": str(tmp_path), "PATH": ""}
    for has_numpy in (True, False):  # the second time it comes from the cache
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
        imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
        assert "tpuprof.cli.analysis" in imported
        assert "typer" not in imported
        assert ("numpy" in imported) == has_numpy


@pytest.mark.parametrize("how", ["plain", "whole"])
def test_ctrl_c(how):
    # What an analysis needs first stands still, until it is interrupted.
    program = (
        "import sys, time, tpuprof.decode.find as find\n"
        "find.find = lambda path: print('begun', flush=True) or time.sleep(60)\n"
    ) + (COMMAND_LINE if how == "whole" else "from tpuprof.cli.entry import main; main()")
    running = subprocess.Popen(
        [sys.executable, "-c", program, "analyze", str(SAMPLE)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdout.readline() == b"begun\n"
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=30)
    assert (running.returncode, said) == (130, b"")
