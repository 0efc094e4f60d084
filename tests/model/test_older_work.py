"""TorchTPU: the first step that waits for many may wait for steps before the capture, as the process' notes tell."""

import numpy as np
import pytest

from tpuprof.model.compile.recurrence import History
from tpuprof.model.intervals import Spans
from tpuprof.model.steps.older_work import without_older_work
from tpuprof.model.steps.table import HIGH, Steps, StepSource
from tpuprof.model.steps.waits_before import OF_A_WAIT, WAITED_FROM, steps_since_wait
from tpuprof.model.telemetry import StepRecord

MS = 10**9


def steps(walls, first=22):
    """Steps that take so long each (ms)."""
    ends = np.cumsum(np.array(walls, np.int64)) * MS
    begins = np.append(0, ends[:-1])
    return Steps(StepSource.OPTIMIZER, HIGH, np.arange(first, first + len(walls)), begins, ends)


def in_the_last_of(found, share=0.9):
    """A wait for so much of the last step."""
    end = found.end[-1:]
    return Spans(end - (share * found.wall_ps[-1:]).astype(np.int64), end)


def noted(since):
    """What the process noted: a wait that came so many steps before the capture, and steps that were handed over."""
    return {21 - since: 1900.0, **dict.fromkeys(range(22 - since, 40), 1.0)}


@pytest.mark.parametrize(
    ("walls", "since"),
    [
        ({}, None),
        ({18: 5.0, 19: 1950.0, 20: 1.0, 21: 10.0, 22: 12.0}, 2),
        ({18: 5.0, 19: 5.0, 20: 1.0, 21: 10.0, 22: 12.0}, None),
        ({20: 4.0, 21: 4.0 * WAITED_FROM, 22: 4.0}, 0),
        ({18: 400.0, 20: 0.4, 21: 99 * OF_A_WAIT, 22: 0.4, 23: 0.4}, 3),
        ({20: 4.0, 22: 400.0, 23: 4.0}, None),
    ],
    ids=["no notes", "two before", "none waited", "the one before", "a slow one", "a captured one"],
)
def test_notes_tell_how_many_steps_came_after_the_last_wait(walls, since):
    assert steps_since_wait(22, walls, 100.0) == since


@pytest.mark.parametrize(
    ("since", "waits", "left_out"),
    [(2, 0.9, 2017 * 2 / 20), (1, 0.9, 2017 / 19), (2, 0.4, 0), (21, 0.9, 0)],
    ids=["two steps", "one step", "it works itself", "more than it waited"],
)
def test_the_wait_is_shorter_by_its_share_of_older_steps(since, waits, left_out):
    """18 steps were captured after 2 that the device had not done: steps of 100 ms took 112."""
    found = steps([1] * 17 + [2000])
    kept = without_older_work(found, in_the_last_of(found, waits), noted(since))
    assert kept.wall_ps[-1] / MS == pytest.approx(2000 - left_out)
    assert len(kept.phases) == (left_out > 0)
    for phase in kept.phases:
        assert (phase.start, phase.end) == (kept.end[-1], found.end[-1])
        assert phase.evidence.startswith(f"the device did the work of {since} step")


def test_little_older_work_is_left_in():
    found = steps([1] * 99 + [2000])
    assert without_older_work(found, in_the_last_of(found), noted(2)) is found


def test_notes_are_without_compiles():
    """A step that evaluates for the first time compiles, and waits for the steps before as well."""
    compiled = StepRecord(19, 1950 * 10**6, False, compiles=2, compile_seconds=0.35)
    before = StepRecord(-1, 10**9, False)
    assert History([before, compiled]).walls_ms == {19: pytest.approx(1600.0)}
