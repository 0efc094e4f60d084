"""Measures one program: bare, captured, analyzed, cured."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from runner.execute import ROOT, Outcome, bare_kept, captured, fingerprint, profiled
from runner.judge import RIGHT, UNDECIDED, WRONG, Answer, answer_of, judge, step_fault
from runner.machine import machine, revision, versions
from runner.result import RESULTS, Result
from runner.truth import Truth

# What `tpuprof capture` exits with where the program ended well and nothing was captured.
NOTHING_CAPTURED = 2


def examine(truth: Truth, again: bool = False) -> Result:
    """Run the program bare and captured, and compare the capture with the truth; `again` takes no kept bare run."""
    result = Result(truth.name, fingerprint(truth), revision=revision(), machine=machine())
    result.versions = versions(truth.needs)
    if truth.missing:
        result.skipped = f"not installed: {', '.join(truth.missing)}"
        return result
    run = RESULTS / truth.name / "run"
    with tempfile.TemporaryDirectory() as scratch:
        if truth.own_profile:
            plain = watched = profiled(truth, Path(scratch), run)
        else:
            plain = bare_kept(truth, Path(scratch), RESULTS / truth.name / "bare.json", again)
            watched = captured(truth, Path(scratch), run)
        _keep(truth, plain, watched)
        _compare(truth, result, plain, watched, run)
    result.load = os.getloadavg()[0]
    return result


def analyze(run: Path) -> Answer | None:
    """What `tpuprof analyze` says; None where there is no capture."""
    done = subprocess.run(
        [sys.executable, "-m", "tpuprof", "analyze", str(run), "--json", "--no-cache"],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    if done.returncode != 0 or not done.stdout:
        return None
    report = json.loads(done.stdout)
    (run.parent / "report.json").write_text(json.dumps(report, indent=1), "utf-8")
    return answer_of(report)


def judge_again(truth: Truth, result: Result) -> None:
    """Analyze the kept capture again, with tpuprof and the truth as they are now."""
    folder = RESULTS / truth.name
    messages = (folder / "captured.err").read_text("utf-8", "replace")
    result.answer = analyze(folder / "run")
    result.word, faults = judge(truth, result.answer, messages)
    kept = [each for each in result.faults if each.startswith(("exit", "printed"))]
    result.faults = kept + faults + _step_faults(truth, result)
    _settle(result)


def _compare(truth: Truth, result: Result, plain: Outcome, watched: Outcome, run: Path) -> None:
    if plain.status != truth.status:
        result.faults.append(f"exit status {plain.status} of the bare run, not {truth.status}")
    order = list if truth.ordered else sorted
    if order(watched.printed) != order(plain.printed):
        result.faults.append("printed something else under capture")
    result.own_ms = watched.step_ms
    result.captured_ms = _captured_ms(run, watched.seconds)
    result.answer = analyze(run)
    result.word, faults = judge(truth, result.answer, watched.messages)
    if watched.status != _expected(result, plain.status):
        result.faults.append(f"exit status {watched.status} under capture, {plain.status} without")
    result.faults += faults + _step_faults(truth, result)
    _settle(result)


def _expected(result: Result, status: int) -> int:
    """The exit status under capture: the program's own; where it ended well and nothing was captured, tpuprof's."""
    return NOTHING_CAPTURED if status == 0 and result.answer is None else status


def _step_faults(truth: Truth, result: Result) -> list[str]:
    fault = (
        step_fault(result.answer, result.own_ms, result.captured_ms) if truth.even and truth.captured else ""
    )
    return [fault] if fault else []


def _captured_ms(run: Path, seconds: list[float]) -> float | None:
    """The mean of the captured steps by the program's own clock (ms).

    The last one is left out: the profiler ends in it, which takes longer than ten steps of some programs.
    """
    first, count = captured_steps(run)
    inside = seconds[first : first + max(count - 1, 1)] if first >= 0 else []
    return statistics.fmean(inside) * 1e3 if inside else None


def captured_steps(run: Path) -> tuple[int, int]:
    """Index of the first captured step among the program's own figures, and their number; (-1, 0) if unknown.

    The program's first figure is of its second step.
    """
    place = run / "tpuprof" / "run.json"
    capture = json.loads(place.read_text("utf-8")).get("capture", {}) if place.is_file() else {}
    return capture.get("steps_before", 0) - 1, capture.get("steps_captured") or 0


def _settle(result: Result) -> None:
    """A run with any fault is not right, whatever its verdict."""
    if result.faults and result.word in (RIGHT, UNDECIDED):
        result.word = WRONG


def _keep(truth: Truth, plain: Outcome, watched: Outcome) -> None:
    folder = RESULTS / truth.name
    folder.mkdir(parents=True, exist_ok=True)
    for name, outcome in (("bare", plain), ("captured", watched)):
        (folder / f"{name}.out").write_text("\n".join(outcome.printed) + "\n", "utf-8")
        (folder / f"{name}.err").write_text(outcome.messages, "utf-8")
