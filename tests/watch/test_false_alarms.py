"""The stated rate of false alarms, measured on noise without any anomaly, and each threshold on both sides."""

import math
import random

import pytest

from tpuprof.ledger.rows import Row
from tpuprof.watch import anomalies as kinds
from tpuprof.watch.anomalies import Settings
from tpuprof.watch.detector import Detector

STEPS = 20_000
MS = 1_000_000


def noise(name, rng):
    if name == "normal":
        return lambda: max(0.2, rng.gauss(1, 0.15))
    if name == "log-normal":
        return lambda: rng.lognormvariate(0, 0.15)
    if name == "heavy tails":
        # Student's t with three degrees of freedom, 3 % wide.
        return lambda: max(0.2, 1 + 0.03 * rng.gauss(0, 1) / math.sqrt(rng.gammavariate(1.5, 2) / 3))
    return lambda: 1.0 + 0.02 * rng.random() + (0.3 if rng.random() < 0.05 else 0)  # one step in twenty logs


@pytest.mark.parametrize("name", ["normal", "log-normal", "heavy tails", "logs now and then"])
@pytest.mark.parametrize("seed", [1, 2])
def test_noise_raises_at_most_one_alarm_per_10_000_steps(name, seed):
    rng = random.Random(seed)
    draw, detector = noise(name, rng), Detector()
    found = []
    for step in range(STEPS):
        length = int(250 * MS * draw())
        memory = 10**10 + rng.randint(-50, 50) * 2**20
        found += detector.feed(Row(step, 0, length, input_us=rng.randint(0, 500), host_bytes=memory))
    assert len(found) <= STEPS // 10_000, [(each.kind, each.step) for each in found]


def quiet(detector, count=300, length=100 * MS, **parts):
    found = []
    for step in range(count):
        found += detector.feed(Row(step, 0, length + (step % 5) * MS // 10, **parts))
    return found


def kinds_of(found):
    return [each.kind for each in found]


@pytest.mark.parametrize(("factor", "expected"), [(1.45, []), (1.6, [kinds.SLOW_STEP])])
def test_a_slow_step_takes_half_as_long_again(factor, expected):
    detector = Detector()
    assert quiet(detector) == []
    found = detector.feed(Row(300, 0, int(100 * MS * factor)))
    assert kinds_of(found + quiet(detector, 10)) == expected


@pytest.mark.parametrize(("factor", "expected"), [(1.08, []), (1.15, [kinds.SHIFT])])
def test_a_shift_is_a_tenth(factor, expected):
    detector = Detector()
    assert quiet(detector) == []
    assert kinds_of(quiet(detector, 100, int(100 * MS * factor))) == expected


def test_a_large_shift_is_not_called_a_slow_step():
    detector = Detector()
    quiet(detector)
    assert kinds_of(quiet(detector, 100, 250 * MS)) == [kinds.SHIFT]


def test_an_input_stall_is_named_after_its_part():
    detector = Detector()
    quiet(detector, input_us=500)
    found = detector.feed(Row(300, 0, 300 * MS, input_us=200_000)) + quiet(detector, 10)
    assert [(each.kind, each.part, each.step) for each in found] == [(kinds.INPUT_STALL, "input_wait", 300)]


def test_compiles_of_the_warm_up_are_no_anomaly():
    detector = Detector()
    found = []
    for step in range(40):
        found += detector.feed(Row(step, 0, 100 * MS, compiles=int(step % 10 == 0), compile_us=50_000))
    assert found == []
    quiet(detector, Settings().warm_steps)
    assert kinds_of(detector.feed(Row(99, 0, 100 * MS, compiles=1, compile_us=50_000))) == [kinds.RECOMPILE]


def test_a_program_that_compiles_for_ever_is_reported_less_and_less_often():
    detector = Detector()
    quiet(detector)
    found = []
    for step in range(10_000):
        found += detector.feed(Row(step, 0, 100 * MS, compiles=int(step % 10 == 0), compile_us=50_000))
    assert 2 <= len(found) <= 8


@pytest.mark.parametrize(("grows", "expected"), [(2**17, []), (2**21, [kinds.MEMORY_GROWTH])])
def test_memory_grows_or_not(grows, expected):
    detector = Detector()
    found = []
    for step in range(600):
        found += detector.feed(Row(step, 0, 100 * MS, host_bytes=2 * 10**9 + step * grows))
    assert kinds_of(found) == expected


def test_a_sawtooth_of_memory_is_no_growth():
    detector = Detector()
    found = []
    for step in range(5000):
        found += detector.feed(Row(step, 0, 100 * MS, host_bytes=2 * 10**9 + (step % 200) * 2**22))
    assert found == []


def test_a_jump_of_memory_is_no_growth():
    detector = Detector()
    found = []
    for step in range(600):
        jump = 2**28 if step > 300 else 0
        found += detector.feed(Row(step, 0, 100 * MS, host_bytes=2 * 10**9 + step * 1000 + jump))
    assert found == []


@pytest.mark.parametrize(("seconds", "expected"), [(29, False), (31, True)])
def test_a_hang_is_reported_once(seconds, expected):
    detector = Detector()
    quiet(detector)
    found = [detector.hang(300, seconds * 10**9 + more) for more in range(3)]
    assert [each is not None for each in found] == [expected, False, False]


def test_a_hang_is_not_reported_as_a_slow_step_too():
    detector = Detector()
    quiet(detector)
    assert detector.hang(300, 31 * 10**9) is not None
    assert detector.feed(Row(301, 0, 40 * 10**9)) + quiet(detector, 10) == []


def test_a_graph_cut_may_take_longer():
    detector = Detector()
    quiet(detector)
    assert detector.hang(300, 119 * 10**9, in_cut=True) is None
    assert detector.hang(300, 121 * 10**9, in_cut=True) is not None


def test_a_hang_is_relative_to_the_steps():
    detector = Detector()
    quiet(detector, 40, 60_000 * MS)
    assert detector.hang(40, 300 * 10**9) is None
    assert detector.hang(40, 601 * 10**9) is not None


@pytest.mark.parametrize(("ratio", "expected"), [(1.15, 0), (1.3, 1)])
def test_a_host_is_behind_after_three_checks(ratio, expected):
    detector = Detector()
    quiet(detector)
    found = [detector.behind(300, ratio * 100.0, 100.0) for _ in range(5)]
    assert [each is not None for each in found] == [False, False, bool(expected), False, False]


def test_unknown_values_raise_nothing():
    detector = Detector()
    for step in range(100):
        detector.feed(Row(step, -1, 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1))
    assert detector.hang(100, 10**12) is not None
