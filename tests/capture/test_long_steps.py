"""Steps after the capture that take far longer than their like, and where the training thread is then."""

import sys
import threading
import time

import pytest

from tpuprof.capture import long_steps
from tpuprof.capture.long_steps import (
    AHEAD_BELOW,
    KNOWN_FROM,
    LATE_FROM,
    LONG_FROM,
    LOOK_EVERY_SECONDS,
    MAX_NUMBERS,
    MAX_SAMPLES,
    MAX_STACKS,
    LongSteps,
    LongStepWatch,
)
from tpuprof.run_folder import CLASSES_PER_DOUBLING

# The usual step (s).
USUAL = 0.1


class Steps:
    """Steps of a program with a clock of its own."""

    def __init__(self, monkeypatch, usual=USUAL):
        self.now = self.began = 0.0
        self.number = 0
        self.found = LongSteps(usual_seconds=usual)
        self.watch = LongStepWatch(self.found, lambda: self.began)
        monkeypatch.setattr(long_steps.time, "monotonic", lambda: self.now)

    def __call__(self, *lengths, compiled=False):
        for length in lengths:
            self.now = self.began + length
            self.watch.step_ended(self.number, self.began, self.now, compiled=compiled)
            self.began, self.number = self.now, self.number + 1


@pytest.fixture
def steps(monkeypatch):
    return Steps(monkeypatch)


@pytest.mark.parametrize(("ratio", "long"), [(LONG_FROM - 0.01, 0), (LONG_FROM + 0.01, 1)])
def test_a_step_of_twice_the_usual_time_is_long(steps, ratio, long):
    steps(USUAL, USUAL * ratio, USUAL)
    assert (steps.found.judged, steps.found.steps) == (3, long)
    assert steps.found.judged_seconds == pytest.approx(USUAL * (2 + ratio))
    assert steps.found.seconds == pytest.approx(USUAL * ratio * long)
    assert steps.found.numbers == [1] * long


def test_what_compiles_and_what_comes_before_the_usual_is_known_is_not_judged(monkeypatch):
    steps = Steps(monkeypatch, usual=0.0)
    steps(1.0)
    steps.found.usual_seconds = USUAL
    steps(1.0, compiled=True)
    steps.watch.settle()
    assert (steps.found.judged, steps.found.steps) == (0, 0)


@pytest.mark.parametrize(("short", "long"), [(AHEAD_BELOW - 0.01, 0), (AHEAD_BELOW + 0.01, 1)])
@pytest.mark.parametrize("before", [True, False])
def test_a_step_beside_one_in_which_the_host_runs_ahead_waits_for_both(steps, short, long, before):
    """The runtime let one step in ten go at once: the step beside it, of twice the time, was a long one."""
    pair = [short * USUAL, (LONG_FROM + 0.1) * USUAL]
    steps(USUAL, *(pair if before else reversed(pair)), USUAL)
    assert steps.found.steps == long


def test_the_last_step_is_counted_once_it_is_settled(steps):
    steps(USUAL, 5 * USUAL)
    assert steps.found.steps == 0
    steps.watch.settle()
    steps.watch.settle()
    assert steps.found.steps == 1


@pytest.mark.parametrize(("count", "known"), [(KNOWN_FROM - 1, False), (KNOWN_FROM, True)])
def test_the_usual_step_is_the_median(monkeypatch, count, known):
    steps = Steps(monkeypatch, usual=0.0)
    length = 17 * CLASSES_PER_DOUBLING
    steps.watch.know({length: count - 5, length + 20: 5})
    assert steps.found.usual_seconds == pytest.approx(2**17 / 1e6 if known else 0.0)


def looks(steps, at, where):
    """The watch looks so long after the step under way began, while the training thread is in `where`."""
    steps.now = steps.began + at
    steps.watch._thread = threading.get_ident()
    where(steps.watch.look)


def preview(look):
    look()


def test_long_steps_say_where_the_thread_is_once_the_usual_time_is_over(steps):
    for usual in (LATE_FROM - 0.01, LATE_FROM + 0.01, 3):
        looks(steps, usual * USUAL, preview)
    steps(4 * USUAL)
    looks(steps, (LATE_FROM + 0.01) * USUAL, preview)
    steps(1.5 * USUAL, USUAL)
    ((stack, times),) = steps.found.stacks.items()
    assert times == 2
    assert stack.split("\n")[0].startswith(f"preview ({__file__}:")


def test_a_step_behind_short_ones_is_late_later(steps):
    steps(0.1 * USUAL)
    looks(steps, (LATE_FROM + 0.85) * USUAL, preview)
    assert not steps.watch._samples
    looks(steps, (LATE_FROM + 0.95) * USUAL, preview)
    assert steps.watch._samples


def test_what_is_kept_is_bounded(steps):
    for _ in range(MAX_SAMPLES + 1):
        looks(steps, 3 * USUAL, preview)
    assert len(steps.watch._samples) == MAX_SAMPLES
    steps(*[3 * USUAL] * (MAX_NUMBERS + 2), USUAL)
    assert len(steps.found.numbers) == MAX_NUMBERS
    assert steps.found.steps == MAX_NUMBERS + 2
    for number in range(MAX_STACKS + 2):
        steps.watch._open = 0, 3 * USUAL, [f"f (x.py:{number})"]
        steps.watch.settle()
    assert len(steps.found.stacks) == MAX_STACKS


def test_a_thread_of_its_own_looks_until_it_is_stopped():
    found = LongSteps(usual_seconds=0.01)
    watch = LongStepWatch(found, lambda: began)
    watch.step_ended(0, 0.0, 0.01, compiled=False)
    before, began = threading.active_count(), time.monotonic()
    watch.start()
    assert threading.active_count() == before
    end = began + 40 * LOOK_EVERY_SECONDS
    while time.monotonic() < end and len(watch._samples) < 2:
        time.sleep(0.01)
    watch.stop()
    watch.stop()
    watch.step_ended(1, began, time.monotonic(), compiled=False)
    watch.settle()
    assert sum(found.stacks.values()) >= 2
    name = sys._getframe().f_code.co_name
    assert all(f"{name} ({__file__}:" in stack for stack in found.stacks)


def test_a_look_that_fails_is_the_last_one(monkeypatch):
    noted = threading.Event()
    monkeypatch.setattr(long_steps, "note_failure", lambda *_: noted.set())
    watch = LongStepWatch(LongSteps(usual_seconds=0.01), lambda: 1 / 0)
    watch.start()
    assert noted.wait(40 * LOOK_EVERY_SECONDS)
    watch.stop()


def test_without_a_thread_steps_are_counted_all_the_same(monkeypatch):
    class NoThread:
        def __init__(self, _):
            pass

        def start(self):
            raise RuntimeError("can't start new thread")

    noted = []
    monkeypatch.setattr(long_steps, "HiddenThread", NoThread)
    monkeypatch.setattr(long_steps, "note_failure", lambda *told: noted.append(told))
    watch = LongStepWatch(LongSteps(), lambda: 0.0)
    watch.start()
    watch.stop()
    assert len(noted) == 1
