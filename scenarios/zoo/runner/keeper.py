"""Measures one program: bare, captured, analyzed, cured."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from runner.execute import ROOT, Outcome, bare, bare_kept, captured, fingerprint, profiled
from runner.judge import RIGHT, UNDECIDED, WRONG, Answer, answer_of, judge, step_fault
from runner.machine import machine, revision, versions
from runner.overhead import enough, outside
from runner.result import RESULTS, Result
from runner.truth import Truth

# What `tpuprof capture` exits with where the program ended well and nothing was captured.
NOTHING_CAPTURED = 2


def examine(truth: Truth, pairs: int = 1, again: bool = False) -> Result:
    """Run the program bare and captured, `pairs` times each, and compare the first capture with the truth.

    A single bare run may be a kept one, whose steps are compared with none; with `again` it is not.
    """
    result = Result(truth.name, fingerprint(truth), revision=revision(), machine=machine())
    result.versions = versions(truth.needs)
    if truth.missing:
        result.skipped = f"not installed: {', '.join(truth.missing)}"
        return result
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(pairs):
            run = RESULTS / truth.name / ("run" if number == 0 else "run-again")
            if truth.own_profile:
                outcome = profiled(truth, Path(scratch), run)
                _keep(truth, outcome, outcome)
                _compare(truth, result, outcome, outcome, run)
                break
            plain, of_now = _bare(truth, Path(scratch), again, pairs)
            watched = captured(truth, Path(scratch), run)
            if of_now:
                result.pairs.append(_outside(run, plain, watched))
            if number == 0:
                _keep(truth, plain, watched)
                _compare(truth, result, plain, watched, run)
    result.load = os.getloadavg()[0]
    cost = result.overhead
    if cost and cost.word == "slow":
        result.faults.append(f"steps outside the capture are slower: {cost}")
    return result


def _bare(truth: Truth, scratch: Path, again: bool, pairs: int) -> tuple[Outcome, bool]:
    """A bare run, and whether its steps may be compared with those of the captured run that follows.

    A kept run is of another time, perhaps of a machine with other load, and one that another process has forked is
    another kind of process. A program whose steps are too few, or not printed, need not run again.
    """
    if pairs == 1:
        plain = bare_kept(truth, scratch, RESULTS / truth.name / "bare.json")
        if not again or not enough(plain.seconds[len(plain.seconds) // 2 :]):
            return plain, False
    return bare(truth, scratch), True


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
    kept = [each for each in result.faults if each.startswith(("exit", "printed", "steps outside"))]
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
    first, count = _captured_steps(run)
    inside = seconds[first : first + max(count - 1, 1)] if first >= 0 else []
    return statistics.fmean(inside) * 1e3 if inside else None


def _outside(run: Path, plain: Outcome, watched: Outcome) -> tuple[list[float], list[float]]:
    """Lengths of the steps that were not captured, of both runs, the same steps of each; empty if that is unknown."""
    first, count = _captured_steps(run)
    if first < 0 or len(plain.seconds) != len(watched.seconds):
        return [], []
    return outside(plain.seconds, first, count), outside(watched.seconds, first, count)


def _captured_steps(run: Path) -> tuple[int, int]:
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
    shutil.rmtree(folder / "run-again", ignore_errors=True)
