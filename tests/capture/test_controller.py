"""When a capture starts and stops."""

import pytest

from tpuprof.capture.controller import Controller, Phase, Plan


class Tape:
    def __init__(self, **plan):
        self.events = []
        self.controller = Controller(
            Plan(**plan), lambda: self.events.append("start"), lambda: self.events.append("stop")
        )

    def steps(self, *compiles):
        for each in compiles:
            self.controller.step_ended(each)
        return self


def test_steady_training_is_captured_for_the_steps_asked():
    tape = Tape(warmup=2, steps=3, steady=2).steps(1, 0, 0)
    assert tape.events == ["start"]
    assert tape.steps(0, 0).controller.phase is Phase.CAPTURING
    assert tape.steps(0).events == ["start", "stop"]
    assert tape.controller.phase is Phase.DONE
    assert tape.controller.captured == 3


def test_a_compile_starts_the_wait_anew():
    tape = Tape(warmup=0, steps=1, steady=2).steps(1, 0, 1, 0)
    assert tape.events == []
    assert tape.steps(0).events == ["start"]


def test_warmup_is_waited_for_even_when_steady():
    tape = Tape(warmup=5, steps=1, steady=2).steps(0, 0, 0, 0)
    assert tape.events == []
    assert tape.steps(0).events == ["start"]


@pytest.mark.parametrize(("steps", "started"), [(9, False), (10, True)])
def test_patience_ends_with_a_reason(steps, started):
    tape = Tape(warmup=1, steps=2, steady=2, patience=10).steps(*[1] * steps)
    assert bool(tape.events) is started
    assert bool(tape.controller.reason) is started


def test_a_compile_inside_the_capture_does_not_end_it():
    tape = Tape(warmup=0, steps=3, steady=1).steps(0, 1, 1, 1)
    assert tape.events == ["start", "stop"]


def test_finishing_early_stops_a_running_capture_only():
    tape = Tape(warmup=0, steps=3, steady=1)
    tape.controller.finish()
    assert tape.events == []
    tape = Tape(warmup=0, steps=3, steady=1).steps(0)
    tape.controller.finish()
    tape.controller.finish()
    assert tape.events == ["start", "stop"]


def test_no_wait_at_all():
    tape = Tape(warmup=0, steps=1, steady=0)
    tape.controller.begin()
    assert tape.events == ["start"]
