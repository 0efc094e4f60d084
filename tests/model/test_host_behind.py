"""What the verdict adds on host work that the device hides, where the host traces for what is exposed."""

from dataclasses import replace

import pytest

from tpuprof.analysis.sections.host_behind import said_of_work_behind
from tpuprof.model.step_times import Bound, StepTimes
from tpuprof.model.verdict import AS_LARGE_FROM
from tpuprof.model.verdict_words import NAMED_FROM_SHARE
from tpuprof.report.sections import HostStackRow
from tpuprof.rules.thresholds import SAMPLED_FROM_MS

FILE = "/home/u/nerf.py"
TRACING = Bound("tracing", 0.26, 26.0)
STEPS = 12
# Rays that are made again in each step, mostly behind the device's work: a capture of such a program.
STEP = StepTimes(
    wall=100.0,
    parts={"tracing": 26.0, "host:python": 12.0, "compute": 56.0},
    busy=58.0,
    host_work=96.0,
    reads_share=0.0,
    waited=1.0,
)


def row(line: int, exposed: float, hidden: float) -> HostStackRow:
    frames = [f"<module> ({FILE}:{line})"]
    return HostStackRow(
        "host:python", frames, "np.sum(d)", f"{FILE}:{line}", "np.sum(d)", exposed, hidden, 30
    )


RAYS = [row(39, 12.0, 41.0)]


def test_work_behind_the_device_is_named_beside_tracing_that_is_exposed():
    assert said_of_work_behind(TRACING, STEP, RAYS, STEPS) == (
        f" The host's other work takes 42.0 ms of each step, most of it at {FILE}:39 (np.sum(d)). Of that, 30.0 ms is "
        "hidden behind device work; it delays the next graph all the same."
    )


def test_no_line_is_named_that_holds_little_of_it():
    said = said_of_work_behind(TRACING, STEP, [row(line, 3.0, 7.0) for line in (1, 2, 3, 4)], STEPS)
    assert "of each step. Of that, 28.0 ms is hidden" in said


@pytest.mark.parametrize("word", ["device", "host", "sync", "undecided"])
def test_it_is_said_of_what_the_host_does_last(word):
    assert not said_of_work_behind(replace(TRACING, word=word), STEP, RAYS, STEPS)
    assert said_of_work_behind(replace(TRACING, word="dispatch"), STEP, RAYS, STEPS)


@pytest.mark.parametrize(
    "other",
    [
        {"waited": NAMED_FROM_SHARE * STEP.wall},
        {"seen": False},
        {"parts": {"tracing": 26.0, "host:python": AS_LARGE_FROM * 26.0, "compute": 50.0}},
    ],
    ids=["the host waits for the device", "no device plane", "a cause of its own already"],
)
def test_it_is_not_said_of(other):
    assert not said_of_work_behind(TRACING, replace(STEP, **other), RAYS, STEPS)


def test_nor_of_turns():
    assert not said_of_work_behind(replace(TRACING, turns=20.0), STEP, RAYS, STEPS)


def test_work_shorter_than_the_cause_that_is_named_is_not_said():
    least = AS_LARGE_FROM * TRACING.ms
    assert said_of_work_behind(TRACING, STEP, [row(39, 12.0, least - 12.0)], STEPS)
    assert not said_of_work_behind(TRACING, STEP, [row(39, 12.0, least - 12.1)], STEPS)


def test_few_samples_do_not_tell():
    rows = [row(39, 12.0, 18.0)]
    assert said_of_work_behind(TRACING, STEP, rows, 1)
    short = replace(
        STEP, wall=10.0, parts={"tracing": 2.6, "host:python": 1.2}, busy=5.8, host_work=9.6, waited=0.1
    )
    brief = Bound("tracing", 0.26, 2.6)
    work = 3.0
    few = int(SAMPLED_FROM_MS / work)
    assert not said_of_work_behind(brief, short, [row(39, 1.2, 1.8)], few)
    assert said_of_work_behind(brief, short, [row(39, 1.2, 1.8)], few + 1)
