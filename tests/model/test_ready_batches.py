"""Steps that took batches made ready before the capture are none of those that wait for theirs."""

import numpy as np
import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.analyze import analyze_run
from tpuprof.model.intervals import union
from tpuprof.model.ready_batches import (
    LONGER_FROM,
    MOSTLY,
    READY_BELOW,
    READY_FROM_STEPS,
    WAITED_FROM,
    WAITS_FROM_SHARE,
    without_ready_batches,
)
from tpuprof.model.steadiness import MIN_STEPS
from tpuprof.model.steps.table import Steps as StepTable
from tpuprof.model.steps.table import StepSource
from tpuprof.units import PS_PER_MS

WORKS = 10.0
WAIT = 20.0


def kept(waits, works=None, after_ms=None):
    """How many steps are left of those that each wait so long, and then work (ms)."""
    waits = np.array(waits, np.float64)
    walls = ((waits + np.array(works or [WORKS] * len(waits))) * PS_PER_MS).astype(np.int64)
    end = np.cumsum(walls)
    start = end - walls
    steps = StepTable(StepSource.OPTIMIZER, "high", np.arange(len(walls)), start, end)
    waiting = union(start, start + (waits * PS_PER_MS).astype(np.int64))
    found = without_ready_batches(steps, waiting, None if after_ms is None else after_ms * PS_PER_MS)
    assert bool(found.phases) == (len(found) < len(steps))
    return len(found)


def test_leading_steps_that_wait_for_nothing_are_left_out():
    assert kept([0] * 6 + [WAIT] * 14) == 14


@pytest.mark.parametrize(("after_ms", "left"), [(WAIT + WORKS, 14), (WORKS, 20)])
def test_what_comes_after_the_capture_decides(after_ms, left):
    """Threads may hold a lock for a while, and no longer."""
    assert kept([0] * 6 + [WAIT] * 14, after_ms=after_ms) == left


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (READY_FROM_STEPS - 1, MIN_STEPS + 5),  # one may have found its batch by chance
        (6, MIN_STEPS - 1),  # too few are left
        (6, 0),
        (0, 20),
    ],
)
def test_too_few_of_either_change_nothing(first, later):
    assert kept([0] * first + [WAIT] * later) == first + later


@pytest.mark.parametrize(("ready", "left"), [(READY_BELOW - 0.01, 14), (READY_BELOW + 0.01, 20)])
def test_a_step_that_waits_for_a_part_of_the_usual_wait_is_one_of_the_others(ready, left):
    assert kept([WAIT * ready] * 6 + [WAIT] * 14) == left


@pytest.mark.parametrize(("share", "left"), [(0.01, 14), (-0.01, 20)])
def test_waits_that_change_little_are_left_alone(share, left):
    wait = WORKS * (WAITS_FROM_SHARE + share) / (1 - WAITS_FROM_SHARE - share)
    assert kept([0] * 6 + [wait] * 14) == left


def test_bursts_go_on():
    """A loader with workers delivers four batches at a time."""
    assert kept([0, 0, 0, WAIT] * 6) == 24
    assert kept([0, 0, 0, WAIT, WAIT, WAIT] * 4) == 24


@pytest.mark.parametrize(("without", "left"), [(2, 20), (3, 26)])
def test_nearly_all_later_steps_wait(without, left):
    """Of 20, two may have found a batch."""
    assert without / 20 == pytest.approx(1 - MOSTLY, abs=0.06)
    waits = [WAIT] * 20
    waits[5 : 5 + without] = [WAIT * (WAITED_FROM - 0.01)] * without
    assert kept([0] * 6 + waits) == left


@pytest.mark.parametrize(("ratio", "left"), [(LONGER_FROM + 0.01, 14), (LONGER_FROM - 0.01, 20)])
def test_steps_that_take_as_long_for_another_reason_stay(ratio, left):
    assert kept([0] * 6 + [WAIT] * 14, [(WAIT + WORKS) / ratio] * 6 + [WORKS] * 14) == left


def test_a_report_leaves_them_out_and_says_so(tmp_path):
    trace = TraceBuilder()
    python, now = trace.host().line("python"), 0
    for number in range(20):
        wait = 0 if number < 6 else 20_000
        python.event("train_step", now, wait + 10_000, _r=1, step_num=number)
        if wait:
            python.event("tpuprof.dataloader.next", now, wait)
        python.event("StepMarker", now + wait + 9_900, 100)
        now += wait + 10_000
    report = analyze_run(trace.write(tmp_path / "host.xplane.pb"))
    assert report.steps.count == 14
    assert report.steps.median_ms == pytest.approx(30)
    (phase,) = report.phases
    assert phase.name == "ready batches"
    assert "6 steps did not wait, and later ones do" in phase.evidence
