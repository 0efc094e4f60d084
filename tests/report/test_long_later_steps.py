"""A report of a run whose long steps all lie behind the capture: verdict, finding, and what to measure next."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tpuprof.analysis.analyze import analyze_run
from tpuprof.analysis.sections.measure_next import measure_next
from tpuprof.model.step_times import Bound, StepTimes
from tpuprof.run_folder import NOTES, aftermath_name

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "input_starved"
USUAL = 0.110


@pytest.fixture
def run(tmp_path):
    """The sample, whose steps take 111 ms, with notes of 100 later ones, of which ten take `long` seconds."""

    def made(long):
        copy = tmp_path / "run"
        shutil.copytree(SAMPLE, copy, dirs_exist_ok=True)
        seconds = 90 * USUAL + 10 * long
        row = {
            "steps": 116, "compiling_steps": 0, "graphs": 0, "seconds": 0.0, "wall_seconds": seconds + 16 * USUAL,
            "steps_seconds": seconds + 16 * USUAL, "ended": True, "lines": {}, "lengths": {}, "stages": [],
            "long": {
                "judged": 100, "judged_seconds": seconds, "usual_seconds": USUAL, "steps": 10, "seconds": 10 * long,
                "numbers": [*range(7, 100, 10)], "stacks": {"evaluate (/u/train.py:40)": 30},
            },
        }  # fmt: skip
        (copy / NOTES / aftermath_name("vm.0")).write_text(json.dumps(row))
        return analyze_run(copy)

    return made


def test_what_no_captured_step_holds_is_said_and_is_a_finding(run):
    report = run(1.11)
    said = "10 of 100 steps after the capture take longer (1.11 s, the usual step 110 ms, one in 10): 48 % of the time there"
    assert f" {said}. No captured step is as long." in report.verdict.sentence
    (finding,) = [each for each in report.findings if each.rule == "uneven-steps"]
    assert (finding.status, finding.title, finding.savings) == ("failed", said, None)
    assert finding.reason == "it costs 100 ms per step on top of the captured steps, none of which is as long"
    (command,) = [each.command for each in report.measure_next if "long steps" in each.reason]
    assert "--steps 11 " in command
    # The verdict has said what these warnings guess at.
    assert not [each for each in report.warnings if "batches may have been ready" in each]


@pytest.mark.parametrize(
    ("held_by", "captured", "steps", "advice"),
    [
        (42, 51, 102, "The longer capture may hold one of them."),
        (42, 42, 84, "The longer capture may hold one of them."),
        (42, 41, 42, "The longer capture holds one of them."),
    ],
)
def test_a_capture_that_held_none_is_not_advised_again(run, held_by, captured, steps, advice):
    """ "--steps 42: the longer capture holds one of them" was said of a capture of 51 steps, and it held none."""
    report = run(1.11)
    report = replace(report, steps=replace(report.steps, count=captured))
    rows = measure_next(report, Bound("device", 1.0, 1.0), StepTimes(1.0, {}, 1.0, 0.0, 0.0), held_by=held_by)
    (row,) = [each for each in rows if "long steps" in each.reason]
    assert f"--steps {steps} " in row.command
    assert advice in row.advice


def test_later_steps_that_are_as_even_as_captured_ones_are_not_told_of(run):
    report = run(0.12)
    assert "after the capture take longer" not in report.verdict.sentence
    assert not [each for each in report.findings if each.rule == "uneven-steps" and each.status == "failed"]
    assert not [each for each in report.measure_next if "long steps" in each.reason]
