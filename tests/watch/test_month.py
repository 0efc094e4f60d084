"""A simulated month: how many of the planted anomalies are found and rightly named, and how many are made up."""

import pytest

from tests.watch.simulated import MIB, Training
from tpuprof.ledger.reader import read_ledger
from tpuprof.watch import anomalies as kinds

STEPS = 100_000
# A step is allowed to be found this much later than it was planted (steps).
LATE = 700


def planted():
    """40 anomalies of all kinds, 2,300 steps apart."""
    cycle = [
        (kinds.SLOW_STEP, {"factor": 2.2}),
        (kinds.RECOMPILE, {"compile_seconds": 90.0}),
        (kinds.INPUT_STALL, {"input_seconds": 40.0}),
        (kinds.SHIFT, {"by": 1.25}),
        (kinds.MEMORY_GROWTH, {"per_step": 6 * MIB}),
        (kinds.HANG, {"seconds": 1800.0}),
        (kinds.SLOW_SAVE, {"save_seconds": 240.0}),
        (kinds.SHIFT, {"input": 9.0}),
        (kinds.BEHIND, {"ratio": 1.4}),
        (kinds.RECOMPILE, {"compile_seconds": 400.0}),
    ]
    return [(3000 + 2300 * at, *cycle[at % len(cycle)]) for at in range(40)]


class Story:
    """Plants what lasts longer than a step, and returns what the step itself takes."""

    def __init__(self, training):
        self.training = training
        self.level, self.leak_until, self.shift_until, self.behind_until = 1.0, 0, 0, 0

    def begins(self, at, kind, how):
        if kind == kinds.SHIFT:
            self.shift_until = at + 800
            self.level = how.get("by", 1.0)
            self.training.input_seconds = how.get("input", 0.02)
        elif kind == kinds.MEMORY_GROWTH:
            self.leak_until = at + 600
        elif kind == kinds.BEHIND:
            self.behind_until = at + 50
        elif kind == kinds.HANG:
            self.training.hang(how["seconds"])
        else:
            return dict(how)
        return {}

    def goes_on(self, at):
        self.training.compare(1.4 if at < self.behind_until else 1.0)
        if at == self.shift_until:
            self.level, self.training.input_seconds = 1.0, 0.02
        if at < self.leak_until:
            self.training.counters.host += 6 * MIB
        elif at == self.leak_until:
            self.training.counters.host = 20 * 2**30


def run(folder):
    training = Training(folder)
    story, planned = Story(training), {at: (kind, how) for at, kind, how in planted()}
    for at in range(STEPS):
        extra = story.begins(at, *planned[at]) if at in planned else {}
        story.goes_on(at)
        if at < 3:
            extra = {"compile_seconds": 120.0}
        if at % 500 == 250:
            extra = {"save_seconds": 20.0}
        training.step(factor=extra.pop("factor", story.level), **extra)
    return training


@pytest.fixture(scope="module")
def month(tmp_path_factory):
    return run(tmp_path_factory.mktemp("month"))


def judge(found):
    """(planted anomalies that were found and rightly named, reports that match none)."""
    left = list(found)
    caught = 0
    for at, kind, _ in planted():
        mine = [each for each in left if each.kind == kind and at - 2 <= each.step <= at + LATE]
        caught += bool(mine)
        # All reports of the anomaly's own doing: a step that hung is also a slow step, and so on.
        left = [each for each in left if not (each in mine or at - 2 <= each.step <= at + 5)]
    return caught, left


def test_of_40_planted_anomalies_at_least_38_are_found(month):
    caught, _ = judge(month.found)
    assert caught >= 38, [(each.kind, each.step) for each in month.found]


def test_at_most_one_false_report_per_10_000_steps(month):
    _, false = judge(month.found)
    assert len(false) <= STEPS // 10_000, [(each.kind, each.step, each.message) for each in false]


def test_the_month_fits_its_room_and_loses_nothing(month):
    month.ledger.close("exit")
    size = sum(each.stat().st_size for each in month.ledger.path.parent.iterdir())
    assert size / STEPS <= 100
    ledger = read_ledger(month.ledger.path)
    assert (ledger.steps, ledger.missing_rows, ledger.lost_bytes) == (STEPS, 0, 0)
    assert [each["what"] for each in ledger.events if each["kind"] == "anomaly"] == [
        each.kind for each in month.found
    ]


def test_parts_are_named(month):
    parts = {(each.kind, each.part) for each in month.found}
    assert (kinds.INPUT_STALL, "input_wait") in parts
    assert (kinds.SHIFT, "input_wait") in parts
    assert (kinds.SHIFT, "host") in parts
    assert (kinds.MEMORY_GROWTH, "host") in parts
