"""ABBA blocks decide: a saving is confirmed, a change of nothing never is."""

import random

import pytest

from tpuprof.errors import Code
from tpuprof.prove.experiment import (
    ABBA,
    COUNT_TOLERANCE,
    LEAST,
    NARROW,
    PREDICTED_PART,
    SURPRISING,
    Outcome,
    Plan,
    compare_with,
    experiment,
)
from tpuprof.prove.intervals import ERROR, interval, t_quantile
from tpuprof.prove.prediction import Prediction
from tpuprof.prove.proof import sentence
from tpuprof.prove.timing import BY_CLOCK, BY_STEPS, Timed, TooLongError

A, B = ["before"], ["after"]


def machine(
    before, after, *, noise=0.0, drift=0.0, seed=1, losses=(None, None), read_from=(BY_STEPS, BY_STEPS),
    steps=(None, None),
):  # fmt: skip
    """Programs that take so many ms, on a machine that gets slower by `drift` ms per run."""
    chance, calls = random.Random(seed), []

    def runner(command, _seconds):
        calls.append(command[0])
        which = 0 if command is A else 1
        ms = (before, after)[which] + drift * len(calls) + chance.gauss(0, noise)
        return Timed(ms, read_from[which], losses[which], ms / 1e3, steps[which])

    return runner, calls


def tried(*times, plan=None, **more):
    runner, calls = machine(*times, **more)
    return experiment(A, B, runner, plan or Plan(), clock=lambda: 0.0), calls


def test_a_saving_is_confirmed_with_its_interval():
    found, calls = tried(100, 80, noise=1)
    assert found.outcome is Outcome.CONFIRMED
    assert found.saving.low < 20 < found.saving.high
    assert found.saving.half <= NARROW * found.saving.mean
    assert tuple(calls[2:6]) == ABBA
    assert calls[:2] == ["before", "after"]  # discarded


@pytest.mark.parametrize("seed", range(40))
def test_a_change_of_nothing_is_never_confirmed(seed):
    found, _ = tried(100, 100, noise=3, seed=seed)
    assert found.outcome is not Outcome.CONFIRMED
    assert found.reason


def test_a_change_of_nothing_on_a_quiet_machine_is_refuted():
    found, _ = tried(100, 100, noise=0.1)
    assert found.outcome is Outcome.REFUTED


def test_a_slower_program_is_refuted():
    found, _ = tried(100, 120, noise=1)
    assert (found.outcome, found.reason) == (Outcome.REFUTED, "it is slower")


def test_a_steady_drift_favours_neither():
    """Each run is 1 % slower than the one before: first-all-A-then-B would show a slowdown of 16 %."""
    found, _ = tried(100, 100, drift=1.0)
    assert found.outcome is not Outcome.CONFIRMED
    assert abs(found.saving.mean) < 0.5


@pytest.mark.parametrize(
    ("share", "outcome"), [(LEAST * 1.5, Outcome.CONFIRMED), (LEAST * 0.5, Outcome.REFUTED)]
)
def test_from_which_saving_a_fix_is_one(share, outcome):
    assert tried(100, 100 * (1 - share), noise=0.01)[0].outcome is outcome


def test_losses_that_differ_decide_nothing():
    found, _ = tried(100, 80, losses=(2.0, 2.5))
    assert found.outcome is Outcome.UNDECIDED
    assert "losses differ (2 before, 2.5 after)" in found.reason
    assert tried(100, 80, losses=(2.0, 2.01))[0].outcome is Outcome.CONFIRMED
    assert tried(100, 80, losses=(2.0, None))[0].outcome is Outcome.UNDECIDED
    assert tried(100, 80, losses=(float("nan"), 2.0))[0].outcome is Outcome.UNDECIDED


def test_a_loss_that_is_printed_now_and_then_decides_nothing():
    runs = []

    def runner(command, _seconds):
        runs.append(command)
        return Timed(100 if command is A else 80, BY_STEPS, 2.0 if len(runs) % 2 else None, 0.1)

    found = experiment(A, B, runner, clock=lambda: 0.0)
    assert found.outcome is Outcome.UNDECIDED
    assert "some of the runs print a loss" in found.reason


def test_times_of_two_kinds_are_not_compared():
    found, _ = tried(100, 80, read_from=(BY_STEPS, BY_CLOCK))
    assert found.outcome is Outcome.UNDECIDED
    assert "cannot be compared" in found.reason
    assert found.saving is None


def test_steps_that_are_not_the_same_work_are_not_compared():
    """Cuts inside the first step counted as steps: a mean of more and shorter ones."""
    found, _ = tried(100, 80, steps=(95, 86))
    assert found.outcome is Outcome.UNDECIDED
    assert found.reason.startswith("95 steps were counted before the fix and 86 after it")
    assert found.saving is None


@pytest.mark.parametrize(
    ("more", "outcome"), [(0.9, Outcome.CONFIRMED), (1.2, Outcome.UNDECIDED)], ids=["below", "above"]
)
def test_how_many_more_steps_are_permitted(more, outcome):
    many = 100_000
    assert tried(100, 80, steps=(many, int(many * (1 - more * COUNT_TOLERANCE))))[0].outcome is outcome


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_saving_that_is_much_more_than_predicted_is_doubted(factor):
    found, _ = tried(100, 80, noise=0.1)
    said = sentence(found, Prediction(1.0, found.saving.low / SURPRISING / factor))
    assert ("more than 2 times that is saved" in said) is (factor > 1)


def test_a_budget_that_ends_does_not_hide_why_it_is_undecided():
    now = [0.0]

    def runner(command, _seconds):
        now[0] += 10
        return Timed(100, BY_STEPS if command is A else BY_CLOCK, None, 10.0)

    found = experiment(A, B, runner, Plan(budget_s=120), clock=lambda: now[0])
    assert "cannot be compared; the budget of 120 s holds no more runs" in found.reason


def test_a_block_is_begun_where_its_own_runs_fit():
    """A slow program and its quick cure: four runs of the slow one would not fit into the budget."""
    now = [0.0]

    def runner(command, _seconds):
        ms = 24_000 if command is A else 12_000
        now[0] += ms / 1e3
        return Timed(ms, BY_STEPS, None, ms / 1e3)

    found = experiment(A, B, runner, Plan(budget_s=36 + 2 * 72 + 5), clock=lambda: now[0])
    assert found.outcome is Outcome.CONFIRMED
    assert len(found.before) == 4


@pytest.mark.parametrize(
    ("budget_s", "outcome"), [(36 + 3 * 36, Outcome.CONFIRMED), (36 + 2 * 36, Outcome.UNDECIDED)]
)
def test_where_no_two_blocks_fit_three_pairs_are_looked_at_once(budget_s, outcome):
    now, calls = [0.0], []
    noise = random.Random(5)

    def runner(command, _seconds):
        calls.append(command[0])
        ms = (24_000 if command is A else 12_000) * noise.uniform(0.97, 1.0)
        now[0] += 24 if command is A else 12
        return Timed(ms, BY_STEPS, None, 24.0 if command is A else 12.0)

    found = experiment(A, B, runner, Plan(budget_s=budget_s), clock=lambda: now[0])
    assert found.outcome is outcome
    assert now[0] <= budget_s
    if outcome is Outcome.CONFIRMED:
        assert calls[2:] == ["before", "after", "after", "before", "before", "after"]


def test_where_runs_become_longer_a_third_pair_stands_for_the_second_block():
    now, calls = [0.0], []

    def runner(command, _seconds):
        calls.append(command[0])
        seconds = (20 if command is A else 10) * (1 if len(calls) <= 2 else 1.1)
        now[0] += seconds
        return Timed(seconds * 1e3, BY_STEPS, None, seconds)

    # Two blocks of 60 s fit after the discarded runs, and the first takes 66.
    found = experiment(A, B, runner, Plan(budget_s=30 + 121), clock=lambda: now[0])
    assert found.outcome is Outcome.CONFIRMED
    assert calls[2:] == [*ABBA, "before", "after"]
    assert now[0] <= 151


@pytest.mark.parametrize(("budget_s", "outcome"), [(115, Outcome.CONFIRMED), (None, Outcome.UNDECIDED)])
def test_where_two_blocks_fit_the_one_look_may_be_narrower(budget_s, outcome):
    """The same eight runs: as the only look they decide, as the first of seven they do not."""
    now, times = [0.0], {"before": iter([100, 99, 104, 98, 102] * 2), "after": iter([80, 84, 80, 86, 81] * 2)}

    def runner(command, _seconds):
        now[0] += 10
        if budget_s is None and now[0] > 100:
            raise TooLongError(Code.PROVE_FAILED, "too long")
        return Timed(next(times[command[0]]), BY_STEPS, None, 10.0)

    plan = Plan(budget_s=budget_s) if budget_s else Plan()
    found = experiment(A, B, runner, plan, clock=lambda: now[0] if budget_s else 0.0)
    assert (found.outcome, len(found.before)) == (outcome, 4)


def within(budget_s):
    """Runs of ten seconds each within a budget: what came of them, and the time when they were over."""
    now = [0.0]

    def runner(command, _seconds):
        now[0] += 10
        return Timed(100 if command is A else 95, BY_STEPS, None, 10.0)

    return experiment(A, B, runner, Plan(budget_s=budget_s), clock=lambda: now[0]), now[0]


def test_the_budget_ends_it():
    found, now = within(70)
    assert now <= 70
    assert len(found.before) == 2
    assert found.outcome is Outcome.UNDECIDED
    assert found.reason == (
        "the budget of 70 s does not hold 2 blocks of runs: a run of each program takes 20 s together; use --budget 120s"
    )
    assert [name for name, _ in found.uncounted] == ["before", "after"]


def test_the_budget_that_is_advised_holds_two_blocks():
    found, _ = within(120)
    assert found.outcome is Outcome.CONFIRMED


def test_of_a_block_that_is_not_completed_the_runs_are_kept_apart():
    made = []

    def runner(command, _seconds):
        made.append(command)
        if len(made) > 5:
            raise TooLongError(Code.PROVE_FAILED, "too long")
        return Timed(100, BY_STEPS, None, 0.1)

    found = experiment(A, B, runner, clock=lambda: 0.0)
    assert [name for name, _ in found.uncounted] == ["before", "after", *ABBA[:3]]
    assert found.before == []


@pytest.mark.parametrize(("calls", "pairs"), [(0, 0), (1, 0), (4, 0), (8, 2), (11, 4)])
def test_a_run_that_is_cut_off_decides_nothing_by_itself(calls, pairs):
    """Complete blocks count, and the rest of the block that was cut off does not."""
    made, chance = [], random.Random(3)

    def runner(command, _seconds):
        made.append(command)
        if len(made) > calls:
            raise TooLongError(Code.PROVE_FAILED, "too long")
        return Timed((100 if command is A else 99) + chance.gauss(0, 9), BY_STEPS, None, 0.1)

    found = experiment(A, B, runner, clock=lambda: 0.0)
    assert len(found.before) == len(found.after) == pairs
    assert found.outcome is Outcome.UNDECIDED
    assert "budget of 600 s" in found.reason


def test_noise_is_undecided_with_its_bounds():
    found, _ = tried(100, 97, noise=12)
    assert found.outcome is Outcome.UNDECIDED
    assert "so it may be none" in sentence(found, Prediction(1.0, 2.0))


@pytest.mark.parametrize(
    ("part", "outcome"), [(0.99, Outcome.UNDECIDED), (1.01, Outcome.REFUTED)], ids=["below", "above"]
)
def test_a_prediction_of_more_than_the_noise_hides_is_refuted(part, outcome):
    found, _ = tried(100, 100, noise=4)
    assert found.outcome is Outcome.UNDECIDED
    predicted = part * found.saving.high / PREDICTED_PART
    compare_with(found, Prediction(predicted, 2 * predicted))
    assert found.outcome is outcome
    assert ("less than half of what was predicted" in found.reason) is (outcome is Outcome.REFUTED)


@pytest.mark.parametrize(
    "more", [{"losses": (2.0, 3.0)}, {"read_from": (BY_STEPS, BY_CLOCK)}], ids=["losses", "times"]
)
def test_programs_that_cannot_be_compared_refute_no_prediction(more):
    found, _ = tried(100, 100, noise=4, **more)
    compare_with(found, Prediction(900.0, 900.0))
    assert found.outcome is Outcome.UNDECIDED


def test_a_saving_that_is_confirmed_stays_so_below_its_prediction():
    found, _ = tried(100, 90, noise=0.1)
    compare_with(found, Prediction(50.0, 60.0))
    assert found.outcome is Outcome.CONFIRMED


@pytest.mark.parametrize(
    ("share", "freedom", "table"),
    [(0.975, 1, 12.706), (0.975, 3, 3.182), (0.975, 10, 2.228), (0.995, 5, 4.032), (0.9995, 4, 8.610)],
)
def test_quantiles_are_those_of_the_table(share, freedom, table):
    assert t_quantile(share, freedom) == pytest.approx(table, abs=0.001)


def test_intervals_hold_as_often_as_they_say():
    """Of 2,000 experiments of nothing, with one look each, the interval excludes zero in about one of a hundred."""
    chance = random.Random(7)
    missed = 0
    for _ in range(2000):
        found = interval([chance.gauss(0, 1) for _ in range(6)], looks=1)
        missed += not found.low <= 0 <= found.high
    assert missed / 2000 == pytest.approx(ERROR, abs=0.007)


def test_a_saving_that_may_be_negative_is_said_with_its_sign():
    found, _ = tried(10.0, 10.0, noise=1.0, plan=Plan(blocks=2))
    assert found.outcome is Outcome.UNDECIDED
    assert "the saving lies between −" in found.reason
    assert "it may be none; measured: " in sentence(found, None)
    assert " ms per step (between −" in sentence(found, None)


def test_of_whole_runs_the_sentence_says_so():
    found, _ = tried(5000, 2500, read_from=(BY_CLOCK, BY_CLOCK))
    assert "saves 2.50 s of 5.00 s from start to end, 50 %" in sentence(found, None)


def test_a_prediction_whose_ends_read_alike_is_one_number():
    found, _ = tried(10.0, 5.0)
    assert sentence(found, Prediction(4.991, 4.993)).endswith(
        "; predicted: 4.99 ms; losses were not compared: none was found in the output, see --loss."
    )


def test_a_prediction_is_the_share_of_the_captured_step():
    """A captured step of 20 ms of which 5 are saved lets expect 2.5 of 10."""
    found, _ = tried(10.0, 7.5)
    predicted = Prediction(5.0, 6.0, 20.0)
    assert predicted.expected(found.before_ms) == pytest.approx((2.5, 3.0))
    said = sentence(found, predicted)
    assert "saves 2.50 ms of 10.0 ms per step, 25 % (between" in said
    assert "; predicted: 5.00 ms to 6.00 ms of 20.0 ms (25 % to 30 %)" in said
    assert Prediction(50.0, 60.0, 20.0).expected(10.0) == (10.0, 10.0)
