"""Programs without steps are recorded by the clock: when that is due, and that steps take over."""

import itertools
from types import SimpleNamespace

import pytest

from tpuprof.capture import by_clock
from tpuprof.capture.by_clock import STEPS_SHOW_FROM, ByClock
from tpuprof.capture.controller import Controller, Phase
from tpuprof.capture.pacer import (
    COMPILES_TO_SEE,
    EARLY_QUIET_SECONDS,
    LONGER_BY,
    LOOK_EVERY_SECONDS,
    MAX_AT_ONCE,
    MAX_EARLY,
    MAX_EMPTY,
    MAX_RECORDINGS,
    MAX_RESTLESS,
    PATIENCE_SECONDS,
    PAUSE_SECONDS,
    QUIET_IDLE_SECONDS,
    QUIET_SECONDS,
    RECORD_LONG_SECONDS,
    RECORD_SECONDS,
    RESTLESS_SECONDS,
    STEP_COMPILES_FROM_SECONDS,
    Pacer,
)
from tpuprof.capture.recording import ENOUGH_BY_CLOCK_SECONDS, QUIET_ENOUGH_SECONDS, Plan


class Program:
    def __init__(self):
        self.count = 0
        self.now = 0.0
        self.busy = self.hears = False

    def awake(self):
        return True

    def empty(self):
        return False

    def compiles(self):
        return self.count

    def compiling(self):
        return self.busy


def paced(cpu=1.0, waits=1.0):
    """A program on a clock of its own, which uses that share of a CPU and waits for one for that share of time."""
    program = Program()
    return program, Pacer(
        program, lambda: program.now, lambda: program.now * cpu, lambda: program.now * waits
    )


def test_nothing_is_due_before_the_first_compile():
    program, pacer = paced()
    program.now = 100.0
    assert not pacer.due()


# One that sleeps is warm as soon as one that works, if it does not wait for a CPU.
@pytest.mark.parametrize(("cpu", "waits"), [(1.0, 1.0), (0.1, 0.0)])
def test_a_warm_program_is_due_after_a_quiet_second(cpu, waits):
    program, pacer = paced(cpu, waits)
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


def test_a_compile_under_way_is_no_quiet_time():
    program, pacer = paced()
    program.count, program.busy = 1, True
    for look in range(4):
        program.now = look * QUIET_SECONDS
        assert not pacer.due()
    program.busy = False
    program.now += QUIET_SECONDS
    assert pacer.due()


def test_a_busy_machine_gets_more_time():
    program, pacer = paced(cpu=0.1)
    program.count = 1
    assert not pacer.due()
    program.now = 2 * QUIET_SECONDS
    assert not pacer.due()
    program.now = QUIET_IDLE_SECONDS
    assert pacer.due()


def test_the_time_for_which_it_waits_for_a_cpu_does_not_count():
    program, pacer = paced(cpu=0.1, waits=0.5)
    program.count = 1
    assert not pacer.due()
    program.now = 0.1
    assert not pacer.due()
    program.now = 2 * QUIET_SECONDS - 0.2
    assert not pacer.due()
    program.now = 2 * QUIET_SECONDS
    assert pacer.due()


def early(pacer, program):
    """Whether a recording begins early at this moment."""
    return not pacer.due() and pacer.early_due()


def test_a_program_that_may_end_soon_is_recorded_early():
    program, pacer = paced()
    assert not early(pacer, program)
    program.count = 1
    assert not early(pacer, program)
    program.now = EARLY_QUIET_SECONDS - 0.01
    assert not early(pacer, program)
    program.now = EARLY_QUIET_SECONDS
    assert early(pacer, program)


def restless(pacer, program):
    """Whether a recording begins at this moment because compiles do not end."""
    return not pacer.due() and pacer.restless_due()


def compiling(program, seconds):
    """Let time pass, with a compile at each look."""
    program.now += seconds
    program.count += 1


def test_a_program_that_compiles_again_and_again_and_trains_for_seconds_is_recorded():
    program, pacer = paced()
    ended = []
    program.begin, program.drop = lambda: True, lambda _: pytest.fail("it never became quiet")
    program.end = lambda: ended.append(program.now) or True
    while program.now < RESTLESS_SECONDS:
        assert not restless(pacer, program)
        compiling(program, LOOK_EVERY_SECONDS)
    assert not restless(pacer, program)  # the first compile was seen a look later
    compiling(program, LOOK_EVERY_SECONDS)
    assert restless(pacer, program)
    begun = program.now
    pacer.record_restless(lambda seconds: compiling(program, seconds))
    assert ended == [pytest.approx(begun + RECORD_LONG_SECONDS, abs=2 * LOOK_EVERY_SECONDS)]
    assert not restless(pacer, program)


def test_what_was_recorded_of_compiles_that_end_is_kept_until_the_quiet_program_is_recorded():
    program, pacer = paced()
    ended = []
    program.begin, program.spare = lambda: True, lambda: ended.append(program.now)
    while not restless(pacer, program):
        compiling(program, LOOK_EVERY_SECONDS)
    last = program.now + 1.0

    def compiles_until_then(seconds):
        program.now += seconds
        program.count += program.now <= last

    assert not pacer.record_restless(compiles_until_then)
    assert ended == [pytest.approx(last + QUIET_SECONDS, abs=2 * LOOK_EVERY_SECONDS)]
    assert not pacer.recordings
    assert pacer.due()
    # One that does so for long is not recorded for nothing again and again.
    compiling(program, LOOK_EVERY_SECONDS)
    pacer.restless = MAX_RESTLESS
    assert not restless(pacer, program)


def test_what_is_recorded_early_is_dropped_when_something_compiles():
    program, pacer = paced()
    dropped = []
    program.begin, program.drop = lambda: True, lambda _: dropped.append(program.now)

    def compiles_later(seconds):
        program.now += seconds
        program.count += program.now > RECORD_SECONDS / 2

    assert not pacer.record_early(compiles_later)
    assert len(dropped) == 1 and RECORD_SECONDS / 2 < dropped[0] < RECORD_SECONDS / 2 + 2 * LOOK_EVERY_SECONDS
    program.busy = True
    assert not pacer.record_early(lambda seconds: None)
    assert len(dropped) == 2
    # A program that compiles now and then for long is not recorded for nothing again and again.
    program.busy, program.now = False, 10.0
    assert pacer.early == MAX_EARLY
    assert not pacer.early_due()


def test_what_is_recorded_early_counts_where_nothing_compiles():
    program, pacer = paced()
    program.begin = program.end = lambda: True

    def waits(seconds):
        program.now += seconds

    assert pacer.record_early(waits)
    assert program.now == pytest.approx(RECORD_SECONDS, abs=2 * LOOK_EVERY_SECONDS)


def heard():
    """A program that tells of each compile as it ends, and what was done."""
    program, pacer = paced()
    done = []
    program.hears = True
    program.begin, program.drop = lambda: done.append("begin") or True, lambda _: done.append("drop")
    return program, pacer, done


def compile_ends(program, pacer, seconds):
    program.count += 1
    pacer.compiled(seconds)


def test_after_a_compile_of_a_step_recording_begins_at_once():
    program, pacer, done = heard()
    compile_ends(program, pacer, STEP_COMPILES_FROM_SECONDS)
    assert done == ["begin"]
    # Another one, of an evaluation say: what runs now is recorded instead.
    compile_ends(program, pacer, STEP_COMPILES_FROM_SECONDS)
    assert done == ["begin", "drop", "begin"]
    # Training is over before the next look.
    assert pacer._follow_early(lambda seconds: True)


def test_after_a_compile_of_an_op_it_does_not():
    program, pacer, done = heard()
    compile_ends(program, pacer, 0.99 * STEP_COMPILES_FROM_SECONDS)
    assert done == []
    compile_ends(program, pacer, STEP_COMPILES_FROM_SECONDS)
    compile_ends(program, pacer, 0.99 * STEP_COMPILES_FROM_SECONDS)
    assert done == ["begin", "drop"]
    assert not pacer._follow_early(lambda seconds: None)


def test_a_program_that_compiles_on_is_not_recorded_at_once_for_ever():
    program, pacer, done = heard()
    for _ in range(2 * MAX_AT_ONCE):
        compile_ends(program, pacer, 1.0)
    assert done.count("begin") == done.count("drop") == MAX_AT_ONCE


def test_what_is_recorded_at_once_counts_where_nothing_compiles_any_more():
    program, pacer, _ = heard()
    program.end = lambda: True
    compile_ends(program, pacer, 1.0)

    def waits(seconds):
        program.now += seconds

    assert pacer._follow_early(waits)
    assert program.now == pytest.approx(RECORD_SECONDS, abs=2 * LOOK_EVERY_SECONDS)
    assert pacer.recordings == 1


def test_while_a_recording_is_looked_at_none_begins_at_once():
    program, pacer, done = heard()
    program.end = lambda: True
    compile_ends(program, pacer, 1.0)

    def empty():
        compile_ends(program, pacer, 1.0)
        return True

    def waits(seconds):
        program.now += seconds

    program.empty = empty
    assert not pacer._follow_early(waits)
    assert done == ["begin"]
    compile_ends(program, pacer, 1.0)
    assert done == ["begin", "begin"]


def test_a_program_that_ends_meanwhile_keeps_its_recording():
    program, pacer = paced()
    program.begin = lambda: True
    assert pacer.record_early(lambda seconds: True)
    assert pacer.record(lambda seconds: True)


def test_a_recording_that_compiled_is_made_again_and_not_for_ever():
    program, pacer = paced()
    program.begin = lambda: True

    def ended():
        program.count += 1
        return True

    program.end = ended
    again = [pacer.record(lambda seconds: None) for _ in range(MAX_RECORDINGS)]
    assert again == [False] * (MAX_RECORDINGS - 1) + [True]


def test_a_recording_without_a_compile_is_enough():
    program, pacer = paced()
    program.begin = program.end = lambda: True
    assert pacer.record(lambda seconds: None)


def test_a_recording_that_ends_while_a_program_compiles_is_made_again():
    """Parameters made one by one look like steps, and the step's own compile came as the recording ended."""
    program, pacer = paced()
    program.begin = program.end = lambda: True
    program.busy = True
    assert not pacer.record(lambda seconds: None)
    program.busy = False
    assert pacer.record(lambda seconds: None)


def test_a_recording_that_gave_way_is_made_again():
    program, pacer = paced()
    program.begin, program.end = lambda: True, lambda: False
    assert not pacer.record(lambda seconds: None)
    program.end = lambda: True
    assert pacer.record(lambda seconds: None)


def test_a_recording_without_a_step_is_made_again_after_the_next_compile():
    program, pacer = paced()
    program.begin = program.end = program.empty = lambda: True
    program.count, program.now = 1, 10.0
    pacer.due()
    program.now += QUIET_SECONDS
    assert pacer.due()
    assert not pacer.record(lambda seconds: None)
    assert not pacer.due()
    program.count, program.now = 2, program.now + 1
    assert not pacer.due()
    program.now += QUIET_SECONDS
    program.empty = lambda: False
    assert pacer.due() and pacer.record(lambda seconds: None)


def test_a_long_compile_is_recorded_with_pauses():
    program, pacer = paced()
    program.begin = program.end = program.empty = lambda: True
    program.count, program.busy = 1, True
    made = []
    while program.now < PATIENCE_SECONDS + 3 * PAUSE_SECONDS:
        if pacer.due():
            made.append(program.now)
            pacer.record(lambda seconds: None)
        program.now += 0.5
    assert made == [PATIENCE_SECONDS, PATIENCE_SECONDS + PAUSE_SECONDS]


def test_recordings_without_a_step_come_ever_later_and_end():
    program, pacer = paced()
    program.begin = program.end = program.empty = lambda: True
    program.count = 1
    pacer.due()
    program.now, made = QUIET_SECONDS, []
    while not made or not made[-1][1]:
        while not pacer.due():
            program.now += 0.5
        made.append((program.now, pacer.record(lambda seconds: None)))
    pauses = [after - before for (before, _), (after, _) in itertools.pairwise(made)]
    assert pauses == [PAUSE_SECONDS * LONGER_BY**number for number in range(MAX_EMPTY - 1)]


@pytest.mark.parametrize("compiles", [0, 1])
def test_what_showed_no_step_is_recorded_for_longer(compiles):
    program, pacer = paced()
    program.begin = program.end = program.empty = lambda: True
    lengths = []
    for _ in range(4):
        waited = []

        def wait(seconds, waited=waited):
            waited.append(seconds)
            program.count += compiles

        pacer.record(wait)
        lengths.append(sum(waited))
    whole = [min(RECORD_SECONDS * LONGER_BY**number, RECORD_LONG_SECONDS) for number in range(4)]
    if compiles:
        assert lengths[:2] == [RECORD_LONG_SECONDS] * 2
        # The later ones go on until some more compiles have come, at most.
        assert max(lengths) <= RECORD_LONG_SECONDS + COMPILES_TO_SEE * LOOK_EVERY_SECONDS
    else:
        assert lengths == whole


@pytest.mark.parametrize(("again", "lasts"), [(True, COMPILES_TO_SEE * 12.0), (False, RECORD_LONG_SECONDS)])
def test_compiles_longer_than_a_recording_are_recorded_until_some_have_ended(again, lasts):
    """Each step compiles for 12 s; of one compile alone, which only lasts, no more is recorded than of others."""
    program, pacer = paced()
    program.count, program.busy = 1, True
    assert not pacer.due()
    lengths, ended = [], []

    def wait(seconds):
        program.now += seconds
        if again:
            program.count = 1 + int(program.now / 12.0)
        return False

    program.begin = lambda: lengths.append(program.now) or True
    program.end = lambda: ended.append(program.now) or True
    program.empty = lambda: ended[-1] - lengths[-1] < 24.0
    done = False
    while not done and len(ended) < MAX_EMPTY:
        wait(LOOK_EVERY_SECONDS)
        done = pacer.due() and pacer.record(wait)
        if again and pacer.recordings:
            break
    longest = max(end - begin for begin, end in zip(lengths, ended, strict=True))
    assert lasts - 12.0 <= longest <= lasts + 1.0


def test_a_recording_that_could_not_begin_is_no_recording():
    program, pacer = paced()
    program.begin = lambda: False
    waited = []
    assert not pacer.record(waited.append)
    assert (waited, pacer.recordings) == ([], 0)


@pytest.mark.parametrize(
    ("seconds", "kept"), [(ENOUGH_BY_CLOCK_SECONDS - 0.1, 0), (ENOUGH_BY_CLOCK_SECONDS, 1)]
)
def test_a_recording_cut_short_soon_counts_less_than_a_whole_one(seconds, kept):
    clock = iter([0.0, 8.0, 10.0, 10.0 + seconds])
    recorder = Recorder()
    controller = Controller(Plan(), recorder, lambda: next(clock))
    controller.record_by_clock()
    controller.end_by_clock()
    controller.record_by_clock()
    controller.finish()
    assert controller.kept() is recorder.started[kept]


def test_of_whole_recordings_the_newest_counts_though_it_is_shorter():
    """Of a program that compiled meanwhile eight seconds are recorded, of the quiet one afterwards two."""
    clock = iter([0.0, 8.0, 10.0, 12.0])
    recorder = Recorder()
    controller = Controller(Plan(), recorder, lambda: next(clock))
    for _ in range(2):
        controller.record_by_clock()
        controller.end_by_clock()
    assert controller.kept() is recorder.started[1]


def test_of_recordings_cut_short_the_longest_counts():
    clock = iter([0.0, 0.5, 10.0, 10.1])
    recorder = Recorder()
    controller = Controller(Plan(), recorder, lambda: next(clock))
    for _ in range(2):
        controller.record_by_clock()
        controller.give_way()
    assert controller.kept() is recorder.started[0]


@pytest.mark.parametrize(("restless", "kept"), [(True, 0), (False, 2)])
def test_of_a_program_that_compiles_nearly_all_it_runs_the_first_counts(restless, kept):
    """Its steps become longer and longer; the last recording may hold a part of one."""
    clock = iter([0.0, 8.0, 10.0, 18.0, 20.0, 22.0])
    recorder = Recorder()
    controller = Controller(Plan(), recorder, lambda: next(clock))
    for _ in range(2):
        controller.record_by_clock(restless=restless)
        controller.end_by_clock()
    controller.record_by_clock(restless=restless)
    controller.finish()
    assert controller.kept() is recorder.started[kept]


@pytest.mark.parametrize(
    ("later", "kept"),
    # As often as before, half as often, more seldom, and not at all.
    [(5, 0), (3, 0), (2, 1), (0, 1)],
)
def test_a_whole_recording_counts_where_the_end_cut_one_short_that_compiles_as_often(later, kept):
    """Each step compiles: of 1.5 s at the program's end three are whole, and of 8 s before sixteen."""
    now, compiles, recorder = [0.0], [3], Recorder()
    controller = Controller(Plan(), recorder, lambda: now[0], compiles=lambda: compiles[0])
    controller.record_by_clock()
    now[0], compiles[0] = 8.0, 3 + 16
    controller.end_by_clock()
    compiles[0] += 20
    controller.record_by_clock()
    now[0] += 2.5
    compiles[0] += later
    controller.finish()
    assert recorder.kept is recorder.started[kept]


@pytest.mark.parametrize("follows", [False, True])
def test_a_dropped_recording_never_counts(follows):
    recorder = Recorder()
    controller = Controller(Plan(), recorder)
    assert not controller.drop_by_clock()
    controller.record_by_clock()
    assert controller.drop_by_clock()
    if follows:
        controller.record_by_clock()
    controller.finish()
    assert recorder.kept is (recorder.started[1] if follows else None)


@pytest.mark.parametrize(
    ("quiet", "then", "whole", "kept"),
    [
        # Twice as long as what the program's end cut short, or less.
        (0.41, 0.2, False, 0),
        (0.39, 0.2, False, 1),
        # A whole one, or one of a second, counts before it.
        (8.0, 0.2, True, 1),
        (8.0, 1.0, False, 1),
        # Too short to be kept.
        (QUIET_ENOUGH_SECONDS - 0.01, 0.01, False, 1),
        (QUIET_ENOUGH_SECONDS, 0.01, False, 0),
        # Nothing follows.
        (0.5, None, False, 0),
    ],
)
def test_a_recording_that_a_compile_ended_late_counts_where_no_other_is_nearly_as_long(
    quiet, then, whole, kept
):
    """A loop of a second is over, and the program compiles what it prints."""
    now, recorder = [0.0], Recorder()
    controller = Controller(Plan(), recorder, lambda: now[0])
    controller.record_by_clock()
    now[0] += quiet
    assert controller.drop_by_clock(quiet)
    if then is not None:
        controller.record_by_clock()
        now[0] += then
        if whole:
            controller.end_by_clock()
    controller.finish()
    assert recorder.kept is recorder.started[kept]


@pytest.mark.parametrize(("follows", "kept"), [("", 0), ("short", 1), ("empty", 0)])
def test_a_spare_recording_counts_where_no_other_shows_a_step(follows, kept):
    """It is whole, and holds compiles: a short one behind it that the program's end cut off is what training is like."""
    recorder = Recorder()
    controller = Controller(Plan(), recorder)
    assert not controller.end_by_clock(spare=True)
    controller.record_by_clock()
    assert controller.end_by_clock(spare=True)
    if follows:
        controller.record_by_clock()
        controller.give_way()
    if follows == "empty":
        controller.found_empty()
    controller.finish()
    assert recorder.kept is recorder.started[kept]


def test_steps_that_took_over_are_not_dropped():
    recorder = Recorder()
    controller = Controller(Plan(warmup=0, steady=0, steps=3), recorder)
    controller.begin()
    assert not controller.drop_by_clock()
    controller.finish()
    assert recorder.kept is recorder.started[0]


def test_a_recording_without_a_step_counts_where_no_other_is():
    recorder = Recorder()
    controller = Controller(Plan(), recorder)
    for empty in (False, True):
        controller.record_by_clock()
        controller.end_by_clock()
        if empty:
            controller.found_empty()
    assert controller.kept() is recorder.started[0]


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


def test_no_recording_of_steps_begins_while_one_by_the_clock_is_read(monkeypatch):
    """Reading holds Python's lock: of steps of 14 ms that 57 took, "another thread holds Python's lock" was said."""
    recorder = Recorder()
    controller = Controller(Plan(warmup=1, steps=3), recorder)
    controller.record_by_clock()
    controller.end_by_clock()

    def read(_profile):
        for _ in range(20):
            controller.step_ended(0)
        assert (len(recorder.started), controller.phase) == (1, Phase.WAITING)
        return True

    monkeypatch.setattr(by_clock, "shows_steps", read)
    assert not ByClock(SimpleNamespace(controller=controller), lambda: None).empty()
    for _ in range(20):
        controller.step_ended(0)
    assert (len(recorder.started), controller.phase) == (2, Phase.DONE)


@pytest.mark.parametrize("steps", [0, 1, 2, 9])
def test_a_single_graph_cut_before_the_loop_is_no_step_that_the_program_shows(steps):
    """`torch_xla.sync()` after the model is made; the loop then runs functions of torch.compile, and reads values."""
    recorder = SimpleNamespace(steps_seen=lambda: steps, controller=SimpleNamespace(phase=Phase.WAITING))
    assert ByClock(recorder, lambda: None).marked() is (steps >= STEPS_SHOW_FROM)
