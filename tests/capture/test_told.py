"""What a user reads of the recordings of one capture."""

import pytest

from tpuprof.capture.controller import Controller
from tpuprof.capture.profiler_session import ProfilerTakenError
from tpuprof.capture.recording import Plan
from tpuprof.capture.told import Told


class Recorder:
    """Records nothing and tells; starting and ending the profiler takes 20 ms."""

    def __init__(self):
        self.said = []
        self.told = Told(self.said.append)
        self.plan = Plan(warmup=1, steps=3)
        # Attempts that another session of the process makes fail.
        self.taken = 0

    def start(self, recording):
        self.told.begins(recording, self.plan)
        if self.taken:
            self.taken -= 1
            self.told.put_off()
            raise ProfilerTakenError

    def stop(self, recording):
        recording.profiler_seconds = 0.02
        self.told.ended(recording)

    def done(self, kept):
        self.told.counts(kept)


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def controller(recorder):
    now = iter(range(100))
    return Controller(recorder.plan, recorder, lambda: next(now))


def record(controller, *how):
    for each in how:
        controller.record_by_clock()
        if each == "dropped":
            controller.drop_by_clock()
        elif each == "compiled":
            controller.drop_by_clock(0.5)
        else:
            controller.end_by_clock(spare=each == "spare")
        if each == "empty":
            controller.found_empty()


BEGINS = (
    "no training step was seen so far: recording a few seconds of whatever runs, and again until that shows steps and "
    "no compile"
)
ENDS = (
    "recorded 1.0 s by the clock; the analysis looks for steps in it; starting and ending the profiler took "
)


def test_recordings_by_the_clock_are_two_sentences(recorder, controller):
    """There were fourteen: each of six recordings began, and was not used."""
    record(controller, "dropped", "dropped", "compiled", "spare", "empty", "whole")
    assert recorder.said == [BEGINS]
    controller.finish()
    assert recorder.said == [BEGINS, ENDS + "120 ms in 6 recordings"]


def test_what_counts_so_far_is_said_once(recorder, controller):
    """The program goes on for hours after the last one was kept."""
    record(controller, "whole")
    recorder.told.counts(controller.kept())
    assert recorder.said == [BEGINS, ENDS + "20.0 ms"]
    controller.finish()
    assert len(recorder.said) == 2


def test_where_none_counts_nothing_is_said_of_it(recorder, controller):
    record(controller, "dropped")
    controller.finish()
    assert recorder.said == [BEGINS]


def test_where_none_showed_a_step_that_is_said(recorder, controller):
    record(controller, "empty", "empty")
    controller.finish()
    assert "no step was found in it" in recorder.said[1]


def test_steps_that_take_over_are_told_of(recorder, controller):
    record(controller, "dropped", "dropped")
    for _ in range(9):
        controller.step_ended(0)
    assert recorder.said == [
        BEGINS,
        "no compile in the last 2 of 2 steps; capturing 3",
        "captured 3 steps; starting and ending the profiler took 60.0 ms in 3 recordings",
    ]


def test_training_is_not_called_steady_where_it_may_compile_again(recorder, controller):
    """ "Training is steady after 5 steps" was said, and ten steps later it compiled again."""
    for compiles in [1] * 6 + [0] * 9:
        controller.step_ended(compiles)
    assert recorder.said == [
        "training is not yet steady after 2 steps; capturing 3",
        "captured 3 steps; starting and ending the profiler took 20.0 ms",
        "no compile in the last 2 of 8 steps; capturing 3",
        "captured 3 steps; starting and ending the profiler took 20.0 ms",
    ]


def test_where_no_step_is_waited_for_none_is_said_to_be_without_compiles(recorder):
    controller = Controller(Plan(warmup=0, steps=3, steady=0), recorder)
    recorder.plan = controller.plan
    controller.begin()
    assert recorder.said == ["capturing 3 after 0 steps"]


def test_a_recording_that_another_session_puts_off_is_announced_once(recorder, controller):
    recorder.taken = 4
    for _ in range(12):
        controller.step_ended(False)
    controller.finish()
    begins = [text for text in recorder.said if "; capturing 3" in text]
    assert begins == ["no compile in the last 2 of 2 steps; capturing 3"]
    assert "captured 3 steps; starting and ending the profiler took 20.0 ms" in recorder.said
