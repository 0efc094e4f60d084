"""Programs without steps are recorded by the clock: when that is due, and that steps take over."""

from tpuprof.capture.controller import Controller, Phase, Plan
from tpuprof.capture.pacer import PATIENCE_SECONDS, QUIET_SECONDS, Pacer


class Program:
    def __init__(self):
        self.count = 0
        self.now = 0.0

    def compiles(self):
        return self.count


def paced():
    program = Program()
    return program, Pacer(program, lambda: program.now)


def test_nothing_is_due_before_the_first_compile():
    program, pacer = paced()
    program.now = 100.0
    assert not pacer.due()


def test_a_warm_program_is_due_after_a_quiet_second():
    program, pacer = paced()
    program.count = 1
    assert not pacer.due()
    program.now = QUIET_SECONDS - 0.01
    assert not pacer.due()
    program.now = QUIET_SECONDS
    assert pacer.due()


def test_each_compile_begins_the_quiet_time_anew():
    program, pacer = paced()
    for second in range(5):
        program.now = second * QUIET_SECONDS * 0.9
        program.count += 1
        assert not pacer.due()


def test_a_program_that_always_compiles_is_recorded_all_the_same():
    program, pacer = paced()
    while program.now < PATIENCE_SECONDS:
        program.count += 1
        assert not pacer.due()
        program.now += QUIET_SECONDS / 2
    assert pacer.due()


class Recorder:
    def __init__(self):
        self.started, self.kept = [], None

    def start(self, recording):
        self.started.append(recording)

    def stop(self, recording):
        pass

    def done(self, kept):
        self.kept = kept


def test_a_recording_by_the_clock_counts_where_no_step_ever_comes():
    recorder = Recorder()
    controller = Controller(Plan(), recorder)
    controller.record_by_clock()
    controller.end_by_clock()
    assert controller.phase is Phase.WAITING
    controller.finish()
    assert recorder.kept is recorder.started[0]
    assert controller.by_clock and not controller.reason


def test_steps_that_come_later_replace_it():
    recorder = Recorder()
    controller = Controller(Plan(warmup=1, steps=3), recorder)
    controller.record_by_clock()
    controller.end_by_clock()
    for _ in range(20):
        controller.step_ended(0)
    assert len(recorder.started) == 2
    assert recorder.kept is recorder.started[1] and not controller.by_clock


def test_steps_that_come_meanwhile_replace_it():
    recorder = Recorder()
    controller = Controller(Plan(warmup=1, steps=3), recorder)
    controller.record_by_clock()
    for _ in range(20):
        controller.step_ended(0)
    controller.end_by_clock()
    assert controller.phase is Phase.DONE
    assert recorder.kept is recorder.started[1]
