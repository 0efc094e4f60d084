"""When a capture starts and stops, and which of its recordings counts."""

import pytest

from tpuprof.capture.controller import (
    BURSTS_HELD,
    ENDLESS_STEPS,
    LEAST_SECONDS,
    MAX_GIVEN_WAY,
    MOST_SECONDS_FOR_BURSTS,
    MOST_SECONDS_WITH_COMPILES,
    MOST_STEPS,
    PATIENCE_SECONDS,
    UNSETTLED_SECONDS,
    Controller,
    Phase,
)
from tpuprof.capture.orders import Orders
from tpuprof.capture.recording import Plan


class Tape:
    """Plays the recorder, and the clock."""

    def __init__(self, **plan):
        self.events = []
        self.now = 0.0
        self.kept = None
        self.used_up = self.free = True
        self.fails = False
        self.burst = 0
        self.before_training = False
        self.controller = Controller(
            Plan(**plan),
            self,
            lambda: self.now,
            lambda: self.used_up,
            lambda: self.free,
            burst=lambda: self.burst,
            before_training=lambda: self.before_training,
        )

    def start(self, recording):
        if self.fails:
            raise RuntimeError("Profile has already been started.")
        self.events.append("early" if recording.early else "start")

    def stop(self, recording):
        self.events.append("stop")

    def done(self, kept):
        self.events.append("done")
        self.kept = kept

    def steps(self, *compiles):
        for each in compiles:
            self.controller.step_ended(each)
        return self

    def end(self):
        self.controller.finish()
        return self


def test_a_recording_that_shows_nothing_does_not_count():
    tape = Tape(warmup=2, steps=3, steady=2)

    def stop(recording):
        recording.empty = recording.steps == 0

    tape.stop = stop
    assert tape.steps(1, 0, 0).end().kept is None


def test_a_part_of_a_step_counts_where_nothing_else_does():
    tape = Tape(warmup=2, steps=3, steady=2).steps(1, 0, 0).end()
    assert tape.kept is not None and tape.kept.steps == 0


def test_steady_training_is_captured_for_the_steps_asked():
    tape = Tape(warmup=2, steps=3, steady=2).steps(1, 0, 0)
    assert tape.events == ["start"]
    assert tape.steps(0, 0).controller.phase is Phase.CAPTURING
    assert tape.steps(0).events == ["start", "stop", "done"]
    assert tape.controller.phase is Phase.DONE
    assert tape.controller.captured == 3
    assert (tape.kept.early, tape.kept.after, tape.controller.reason) == (False, 3, "")


def test_a_compile_starts_the_wait_anew():
    tape = Tape(warmup=0, steps=1, steady=2, early=False).steps(1, 0, 1, 0)
    assert tape.events == []
    assert tape.steps(0).events == ["start"]


def test_warmup_is_waited_for_even_when_steady():
    tape = Tape(warmup=5, steps=1, steady=2).steps(0, 0, 0, 0)
    assert tape.events == []
    assert tape.steps(0).events == ["start"]


@pytest.mark.parametrize(("steps", "started"), [(9, False), (10, True)])
def test_patience_in_steps(steps, started):
    tape = Tape(warmup=1, steps=2, steady=2, patience=10, early=False).steps(*[1] * steps)
    assert bool(tape.events) is started
    assert bool(tape.controller.reason) is started


@pytest.mark.parametrize(("seconds", "started"), [(PATIENCE_SECONDS - 1, False), (PATIENCE_SECONDS, True)])
def test_patience_in_time(seconds, started):
    tape = Tape(warmup=1, steps=2, steady=2, early=False).steps(1)
    tape.now = seconds
    assert bool(tape.steps(1).events) is started


def test_time_does_not_end_the_warmup():
    tape = Tape(warmup=3, steps=2, steady=2).steps(1)
    tape.now = 10 * PATIENCE_SECONDS
    assert tape.steps(1).events == []
    assert tape.steps(1).events == ["early"]


def test_a_short_program_that_compiles_to_its_end_keeps_its_last_steps():
    tape = Tape(warmup=3, steps=8).steps(*[1] * 10).end()
    assert tape.events == ["early", "stop", "done"]
    assert (tape.kept.after, tape.kept.steps, tape.kept.compiling) == (4, 6, 6)
    assert "10 of the first 10 steps compiled" in tape.controller.reason


def test_warmup_that_ends_late_is_replaced_by_steady_steps():
    tape = Tape(warmup=3, steps=4).steps(*[1] * 6, 0, 0)
    assert tape.events == ["early", "stop", "start"]
    assert tape.steps(0, 0, 0, 0).events[-2:] == ["stop", "done"]
    assert (tape.kept.early, tape.kept.after, tape.kept.steps) == (False, 8, 4)
    assert tape.controller.reason == ""


@pytest.mark.parametrize(("steady", "early"), [(1, True), (2, False)])
def test_too_few_steady_steps_before_the_end_do_not_replace_an_earlier_recording(steady, early):
    tape = Tape(warmup=3, steps=4).steps(*[1] * 6, 0, 0, *[0] * steady).end()
    assert tape.kept.early is early


def test_there_are_never_more_than_two_recordings():
    tape = Tape(warmup=0, steps=2, patience=40).steps(*[1, 1, 0] * 20)
    assert tape.events == ["early", "stop", "done"]
    tape = Tape(warmup=0, steps=2, patience=40).steps(*[1] * 10, *[0, 0, 0, 0, 1] * 3)
    assert tape.events == ["early", "stop", "start", "stop", "done"]


@pytest.mark.parametrize(("steps", "done"), [(ENDLESS_STEPS - 1, False), (ENDLESS_STEPS, True)])
def test_compiling_without_end_is_the_steady_state(steps, done):
    tape = Tape(warmup=0, steps=2).steps(*[1] * steps)
    assert (tape.controller.phase is Phase.DONE) is done
    assert tape.events == ["early", "stop", *["done"] * done]


def test_one_pause_among_compiles_is_no_end_of_them():
    tape = Tape(warmup=0, steps=2).steps(*[1] * 10, 0, *[1] * 10)
    assert tape.controller.phase is Phase.WAITING


def test_a_compile_inside_the_capture_does_not_end_it():
    tape = Tape(warmup=0, steps=3, steady=1).steps(0, 1, 1, 1)
    assert tape.events == ["start", "stop", "done"]


def test_steps_that_were_parts_of_one_are_counted_anew():
    tape = Tape(warmup=0, steps=2, steady=1).steps(0, 0)
    tape.controller.count_anew()
    assert tape.steps(0).events == ["start"]
    assert tape.steps(0).events == ["start", "stop", "done"]


def test_finishing_early_stops_a_running_capture_only():
    tape = Tape(warmup=0, steps=3, steady=1).end()
    assert tape.events == ["done"]
    assert tape.kept is None
    tape = Tape(warmup=0, steps=3, steady=1).steps(0).end().end()
    assert tape.events == ["start", "stop", "done"]


def test_no_wait_at_all():
    tape = Tape(warmup=0, steps=1, steady=0)
    tape.controller.begin()
    assert tape.events == ["start"]


def test_batches_made_before_are_used_up_before_the_capture_that_counts():
    tape = Tape(warmup=3, steps=4)
    tape.used_up = False
    assert tape.steps(1, 0, 0).events == ["early"]
    assert tape.steps(0, 0, 0, 0, 0, 0).events == ["early", "stop"]
    tape.used_up = True
    assert tape.steps(0).events[2:] == ["start"]
    tape.steps(0, 0, 0, 0)
    assert (tape.kept.early, tape.kept.after, tape.kept.steps, tape.controller.reason) == (False, 10, 4, "")


def test_a_program_that_ends_on_batches_made_before_has_a_capture_that_says_so():
    tape = Tape(warmup=3, steps=4)
    tape.used_up = False
    tape.steps(1, 0, 0, 0, 0, 0).end()
    assert (tape.kept.early, tape.kept.prefetched, tape.kept.steps) == (True, True, 3)
    assert "batches that it had made" in tape.controller.reason


def test_waiting_for_batches_made_before_ends_as_well():
    tape = Tape(warmup=0, steps=1, patience=10, early=False)
    tape.used_up = False
    assert tape.steps(*[0] * 9).events == []
    assert tape.steps(0).events == ["early"]
    assert "batches that it had made" in tape.steps(0).controller.reason


def test_what_ran_before_training_is_no_capture_of_training():
    tape = Tape(warmup=3, steps=4).steps(1, 0, 0, 0)
    assert tape.events == ["start"]
    tape.controller.begin_anew()
    assert tape.events == ["start", "stop"]
    tape.steps(1, 1, 0, 0)
    assert tape.events[2:] == ["start"]
    tape.steps(0, 0, 0, 0)
    assert (tape.kept.early, tape.kept.after, tape.kept.steps) == (False, 4, 4)


def test_it_is_kept_where_nothing_follows():
    tape = Tape(warmup=3, steps=4).steps(1, 0, 0, 0, 0)
    tape.controller.begin_anew()
    tape.steps(0).end()
    assert (tape.kept.after, tape.kept.steps) == (3, 2)


def test_what_runs_before_training_is_kept_only_if_no_training_follows():
    tape = Tape(warmup=1, steps=2)
    tape.before_training = True
    tape.steps(*[0] * 200)
    assert tape.events == ["start", "stop"]
    tape.before_training = False
    tape.controller.begin_anew()
    tape.steps(*[0] * 5)
    assert tape.events == ["start", "stop", "start", "stop", "done"]
    assert tape.kept.after == 2

    played = Tape(warmup=1, steps=2)
    played.before_training = True
    played.steps(*[0] * 200).end()
    assert played.events == ["start", "stop", "done"]
    assert played.kept.steps == 2


def test_training_that_does_not_come_is_not_waited_for_without_end():
    tape = Tape(warmup=1, steps=2)
    tape.before_training = True
    tape.steps(*[0] * 10)
    tape.now = PATIENCE_SECONDS - 1
    tape.steps(0)
    assert tape.events == ["start", "stop"]
    tape.now = PATIENCE_SECONDS
    tape.steps(*[0] * 4)
    assert tape.events[-1] == "done"


def test_training_that_begins_after_the_capture_changes_nothing():
    tape = Tape(warmup=0, steps=1, steady=1).steps(0, 0)
    assert tape.controller.phase is Phase.DONE
    tape.controller.begin_anew()
    assert tape.kept.steps == 1


def test_nothing_is_recorded_while_the_program_uses_the_profiler():
    tape = Tape(warmup=1, steps=2, steady=1)
    tape.free = False
    assert tape.steps(0, 0, 0).events == []
    assert not tape.controller.record_by_clock()
    tape.free = True
    assert tape.steps(0).events == ["start"]


def test_a_recording_that_cannot_start_is_none_to_stop():
    tape = Tape(warmup=1, steps=2, steady=1)
    tape.fails = True
    with pytest.raises(RuntimeError):
        tape.steps(0)
    assert tape.controller.phase is Phase.WAITING
    assert tape.end().events == ["done"]
    assert tape.kept is None


def test_a_recording_that_gives_way_is_kept_where_none_follows():
    tape = Tape(warmup=1, steps=4, steady=1).steps(0, 0, 0)
    assert tape.controller.give_way()
    assert not tape.controller.give_way()
    tape.free = False
    tape.steps(0, 0).end()
    assert tape.events == ["start", "stop", "done"]
    assert tape.kept.steps == 2


def test_a_recording_that_gives_way_is_made_again():
    tape = Tape(warmup=1, steps=4, steady=1).steps(0, 0, 0)
    tape.controller.give_way()
    tape.steps(0, 0, 0, 0, 0)
    assert tape.events == ["start", "stop", "start", "stop", "done"]
    assert tape.kept.steps == 4


def test_giving_way_does_not_go_on_for_ever():
    tape = Tape(warmup=1, steps=4, steady=1)
    for _ in range(MAX_GIVEN_WAY + 2):
        tape.steps(0).controller.give_way()
    assert tape.events == ["start", "stop"] * MAX_GIVEN_WAY + ["done"]


def test_after_a_failure_nothing_runs_and_what_was_recorded_before_counts():
    tape = Tape(warmup=1, steps=2, steady=1).steps(0, 0)
    tape.controller.give_up()
    assert tape.events == ["start", "stop"]
    assert tape.controller.phase is Phase.DONE


def test_a_step_that_may_still_compile_is_no_quiet_one():
    """TorchTPU's host runs ahead of its compiles: their counter stands still while one of them compiles."""
    tape = Tape(warmup=1, steps=9, steady=2)
    tape.controller.step_ended(3)
    for _ in range(5):
        tape.controller.step_ended(0, settled=False)
    assert tape.events == ["early"] and tape.controller.quiet == 0
    assert "in 5 more a compile may have been under way" in tape.controller.reason
    tape.controller.step_ended(92)
    tape.controller.step_ended(0, settled=False)
    tape.controller.step_ended(0)
    assert tape.events == ["early"]
    tape.steps(0)
    assert tape.events == ["early", "stop", "start"]


def test_a_program_that_ends_before_it_is_settled_is_captured_all_the_same():
    tape = Tape(warmup=1, steps=3, steady=2)
    tape.controller.step_ended(3)
    for _ in range(5):
        tape.controller.step_ended(0, settled=False)
    tape.end()
    assert tape.kept is not None and tape.kept.steps == 3


@pytest.mark.parametrize(("settled", "done"), [(False, True), (True, False)])
def test_compiles_that_end_in_every_other_step_are_endless_where_one_is_always_under_way(settled, done):
    """A host that runs ahead of its compiles sees them end in some steps only."""
    tape = Tape(warmup=1, steps=2, steady=2)
    for _ in range(ENDLESS_STEPS):
        tape.controller.step_ended(1)
        tape.controller.step_ended(0, settled=settled)
    assert ("done" in tape.events) is done


def test_steps_during_one_compile_do_not_use_up_patience():
    """Steps of 4 ms: a hundred of them are over before the compile threads have rested for half a second."""
    tape = Tape(warmup=1, steps=2, steady=2).steps(*[1] * 12)
    for _ in range(500):
        tape.controller.step_ended(0, settled=False)
    assert tape.events == ["early", "stop"]
    assert tape.steps(0, 0).events == ["early", "stop", "start"]


@pytest.mark.parametrize(("seconds", "done"), [(UNSETTLED_SECONDS - 0.1, False), (UNSETTLED_SECONDS, True)])
def test_one_compile_after_another_ends_patience_once_none_has_rested_for_some_seconds(seconds, done):
    tape = Tape(warmup=1, steps=2, steady=2, patience=100)
    for step in range(120):
        tape.now = seconds * step / 119
        tape.controller.step_ended(int(step % 10 == 9), settled=False)
    assert ("done" in tape.events) is done


def test_a_step_that_compiles_nothing_is_quiet_where_nothing_is_under_way():
    tape = Tape(warmup=1, steps=2, steady=2).steps(3, 0, 0)
    assert "start" in tape.events


def test_only_steps_that_are_waited_for_need_be_asked_about():
    tape = Tape(warmup=1, steps=2, steady=1)
    assert tape.controller.waits_for_quiet
    tape.steps(1, 0)
    assert not tape.controller.waits_for_quiet
    assert not tape.end().controller.waits_for_quiet


@pytest.mark.parametrize(
    ("step_seconds", "held"),
    [
        (LEAST_SECONDS / 8, 8),
        (LEAST_SECONDS / 9, 9),
        (LEAST_SECONDS / MOST_STEPS, MOST_STEPS),
        (0.001, MOST_STEPS),
        (3.0, 8),
    ],
)
def test_short_steps_are_recorded_for_a_least_time(step_seconds, held):
    tape = Tape(warmup=2, steps=8, steady=2, seconds=LEAST_SECONDS).steps(1, 0, 0)
    while tape.kept is None:
        tape.now += step_seconds * 1.000001
        tape.steps(0)
    assert tape.kept.steps == held


@pytest.mark.parametrize(
    ("compiles_in", "seconds", "held"),
    [
        # One of eight and more steps compiles: half of the time is for the others, of which 25 last so long.
        ([1], 0.3, 26),
        ([1, 4], 0.3, 27),
        # The others had it already.
        ([30], 0.3, 31),
        ([1], 0.1, 41),
        # More than a quarter of the steps compile when eight are over: these are what is to be seen.
        ([1, 4, 6], 0.3, 8),
        ([1], MOST_SECONDS_WITH_COMPILES + 0.1, 8),
        ([], 0.3, 50),
    ],
)
def test_a_compile_does_not_use_up_the_least_time(compiles_in, seconds, held):
    """A compile of 0.31 s left a sixth of the half second, and nine samples, for 29 steps of 3 ms."""
    tape = Tape(warmup=2, steps=8, steady=2, seconds=LEAST_SECONDS).steps(1, 0, 0)
    step = 0
    while tape.kept is None:
        compiles = step in compiles_in
        tape.now += seconds if compiles else LEAST_SECONDS / 50 * 1.000001
        tape.steps(int(compiles))
        step += 1
    assert tape.kept.steps == held


@pytest.mark.parametrize(
    ("burst", "seconds", "step_seconds", "held"),
    [
        (8, LEAST_SECONDS, 0.1, 8 * BURSTS_HELD),
        (8, LEAST_SECONDS, MOST_SECONDS_FOR_BURSTS / 10, 10),
        (8, 0.0, 0.1, 8),
        (2, LEAST_SECONDS, 0.1, 8),
    ],
    ids=["held", "slow", "stated", "small"],
)
def test_several_bursts_of_batches_are_recorded(burst, seconds, step_seconds, held):
    """torch_xla's loader hands over 8 batches at once: in 8 steps there was one wait for a worker, or none."""
    tape = Tape(warmup=2, steps=8, steady=2, seconds=seconds)
    tape.burst = burst
    tape.steps(1, 0, 0)
    while tape.kept is None:
        tape.now += step_seconds * 1.000001
        tape.steps(0)
    assert tape.kept.steps == held


def test_what_a_short_program_leaves_of_the_least_time_counts():
    assert Tape(warmup=2, steps=8, steady=2, seconds=LEAST_SECONDS).steps(*[0] * 14).end().kept.steps >= 8


def test_training_that_always_compiles_is_recorded_for_the_steps_alone():
    tape = Tape(warmup=2, steps=8, steady=2, seconds=1e9, patience=20).steps(*[1] * 40)
    assert tape.kept.steps == 8


@pytest.mark.parametrize(
    ("stated", "members", "seconds"), [(True, 1, 0.0), (False, 1, LEAST_SECONDS), (False, 2, 0.0)]
)
def test_hosts_that_record_together_and_stated_steps_have_no_least_time(stated, members, seconds):
    orders = Orders("run", "name", 3, 8, 100, hlo_debug=True, steps_stated=stated, members=members)
    assert (orders.plan.seconds, orders.plan.steps) == (seconds, 8)


@pytest.mark.parametrize("ends", ["whole", "spare"])
def test_a_program_that_compiles_in_each_step_is_captured_behind_a_recording_by_the_clock(ends):
    """Experts with boolean masks: the first step took 7 s, and what was recorded meanwhile kept all others out."""
    tape = Tape(warmup=3, steps=3, steady=2)
    assert tape.controller.record_by_clock(restless=True)
    tape.controller.end_by_clock(spare=ends == "spare")
    tape.controller.found_empty()
    tape.steps(*[1] * 20).end()
    assert tape.events[:4] == ["early", "stop", "early", "stop"]
    assert (tape.kept.by_clock, tape.kept.steps, tape.kept.compiling) == (False, 3, 3)


def test_patience_ends_with_a_recording_of_steps_where_there_is_one_by_the_clock():
    tape = Tape(warmup=3, steps=3, steady=2, patience=6)
    assert tape.controller.record_by_clock()
    tape.controller.end_by_clock()
    tape.steps(*[1, 0] * 5)
    assert tape.controller.phase is Phase.DONE
    assert (tape.kept.by_clock, tape.kept.steps) == (False, 3)


@pytest.mark.parametrize(
    ("compiles", "lines", "wanted"),
    [
        ((0, 1, 0, 0), 0, False),
        ((1, 0, 1, 0), 1, True),
        ((1, 1, 0, 1), 2, True),
        # The second one that compiled was the last: none was traced with lines.
        ((0, 0, 1, 1), 0, True),
    ],
)
def test_steps_behind_the_second_one_that_compiled_have_source_lines(compiles, lines, wanted):
    """A program that compiles in every second step was steady for two, and its compiles had no line but the cut's."""
    tape = Tape(warmup=2, steps=5, steady=2).steps(1, 0, 0, *compiles)
    assert (tape.events, tape.controller.wants_lines) == (["start"], wanted)
    tape.end()
    assert (tape.kept.with_lines, tape.kept.has_lines) == (lines, lines > 0)
    assert not tape.controller.wants_lines


def test_steps_that_were_parts_of_longer_ones_do_not_count_for_source_lines():
    tape = Tape(warmup=2, steps=5, steady=2).steps(1, 0, 0, 1, 1)
    tape.controller.count_anew()
    assert not tape.steps(1).controller.wants_lines


def test_what_is_recorded_by_the_clock_is_known_as_such_while_it_runs():
    """Lines of ops that fall back are looked for meanwhile: first steps that compile for long left no other step."""
    tape = Tape(warmup=2, steps=3, steady=2)
    tape.controller.record_by_clock()
    assert tape.controller.records_by_clock
    tape.controller.end_by_clock()
    assert not tape.controller.records_by_clock
    assert not tape.steps(1, 0, 0).controller.records_by_clock
