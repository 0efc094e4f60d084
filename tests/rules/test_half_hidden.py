"""Host work of which a part is behind the device's: a finding only where the replay says that it costs time."""

from dataclasses import replace

import pytest

from tests.rules.given import asleep, given, steps
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import run_rules
from tpuprof.rules.thresholds import FAILS_FROM_SHARE, PRICED_FROM_SHARE

PART = "host:python"


class Simulator:
    """A replay in which the step is so much shorter without the work (ms)."""

    error, measured_ms = 0.0, 100.0

    def __init__(self, gain):
        self.gain = gain

    def step_ms(self, change):
        return 100.0 - self.gain * (1 - change.host[PART])


def finding(replayed, exposed=8.0, hidden=12.0, computing=60.0):
    row = replace(asleep(exposed, part=PART), hidden_ms_per_step=hidden, user_call="simulate(state)")
    signals = given(steps=steps(compute=computing, **{PART: exposed}), host_stacks=[row])
    (found,) = run_rules(signals, [find_rule("host-blocked")], lambda: replayed)
    return found


def test_work_that_is_half_behind_the_device_is_a_finding():
    """A simulation in NumPy took 20 % of each step, the device idled for 8 % of the step: no finding named it."""
    found = finding(Simulator(15.0))
    assert (found.status, found.confidence) == ("failed", "medium")
    assert found.title == (
        "The host runs code that gives the device no work at train.py:9 (simulate(state)) for 20.0 ms per step, and the "
        "device idles for 8.00 ms of that"
    )
    assert (found.savings.low, found.savings.high) == (pytest.approx(15.0), pytest.approx(15.0))
    assert [(each.source, each.value) for each in found.evidence] == [("train.py:9", pytest.approx(20.0))]


@pytest.mark.parametrize(
    ("call", "status"), [("simulate(state)", "passed"), ("step(simulate(state))", "failed")]
)
def test_a_call_that_hands_programs_over_is_not_to_be_taken_elsewhere(call, status):
    """A jitted function was called for 24 models in turn: 31 to 47 us of a call of 163 us were promised for its own
    Python, and batches that were made before saved nothing."""
    rows = [
        replace(asleep(8.0, part=PART), hidden_ms_per_step=12.0, user_call="simulate(state)"),
        replace(asleep(9.0, part="dispatch"), user_call=call),
    ]
    signals = given(steps=steps(compute=60.0, **{PART: 8.0}), host_stacks=rows)
    (found,) = run_rules(signals, [find_rule("host-blocked")], lambda: Simulator(15.0))
    assert found.status == status


def test_other_such_work_that_the_price_takes_out_is_said():
    rows = [
        replace(asleep(4.0, part=PART), hidden_ms_per_step=8.0, user_call="simulate(state)"),
        replace(
            asleep(3.0, part=PART), hidden_ms_per_step=5.0, source="train.py:5", frames=["pick (train.py:5)"]
        ),
    ]
    signals = given(steps=steps(compute=60.0, **{PART: 7.0}), host_stacks=rows)
    (found,) = run_rules(signals, [find_rule("host-blocked")], lambda: Simulator(12.0))
    assert found.title.endswith(
        " for 12.0 ms per step, and the device idles for 4.00 ms of that; other lines take 8.00 ms more, most of it at "
        "train.py:5 (time.sleep(x))"
    )


@pytest.mark.parametrize(("gain", "status"), [(PRICED_FROM_SHARE * 100 + 1, "failed"), (4.0, "passed")])
def test_the_replay_decides_whether_it_costs_time(gain, status):
    """Where the thread then waits for the device, for as long as the work took, its hidden part costs nothing."""
    assert finding(Simulator(gain)).status == status


def test_without_a_replay_it_is_no_finding():
    found = finding("it cannot be priced: the replay is off")
    assert (found.status, found.savings) == ("passed", None)
    assert found.reason == "it cannot be priced: the replay is off"


@pytest.mark.parametrize(
    ("hidden", "status"), [(FAILS_FROM_SHARE * 100 - 8.1, "passed"), (FAILS_FROM_SHARE * 100 - 7.9, "failed")]
)
def test_it_counts_from_the_share_on_that_any_cause_needs(hidden, status):
    assert finding(Simulator(9.0), hidden=hidden).status == status


@pytest.mark.parametrize(("exposed", "status"), [(5.1, "failed"), (4.9, "passed")])
def test_the_device_has_to_idle_for_some_of_it(exposed, status):
    assert finding(Simulator(9.0), exposed=exposed, hidden=30.0).status == status


def test_work_behind_a_device_that_hardly_idles_is_no_finding():
    assert finding(Simulator(15.0), computing=91.0).status == "passed"
