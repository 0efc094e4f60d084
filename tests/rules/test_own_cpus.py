"""Host code beside the work of a device that is this machine's CPU takes CPUs from it."""

from dataclasses import replace

import pytest

from tests.rules.given import asleep, given, steps
from tpuprof.model.busy_machine import ALL_CPUS_FROM_SHARE
from tpuprof.model.busy_machine import DISTURBED_FROM_SHARE as WAITED
from tpuprof.rules.pricing import BESIDE_IT
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import run_rules

PART = "host:python"


class Simulator:
    """A replay in which the step is 20 ms shorter without the work (ms)."""

    error, measured_ms = 0.0, 100.0

    def step_ms(self, change):
        return 100.0 - 20.0 * (1 - change.host[PART])


def finding(hidden, part=PART, busy=75.0, **facts):
    row = replace(asleep(20.0, part=part), hidden_ms_per_step=hidden, user_call="augment(x)")
    capture = {
        "cpus": facts.get("cpus", 2),
        "cpus_used": facts.get("cpus", 2) * facts.get("used", 0.5),
        "cpu_wait_share": facts.get("waited", WAITED),
    }
    signals = given(
        steps=steps(compute=busy, **{part: 20.0}),
        host_stacks=[row],
        device_type=facts.get("device", "CPU"),
        busy_share=busy / 100,
        run_info={"capture": capture},
    )
    (found,) = run_rules(signals, [find_rule("host-blocked")], Simulator)
    return found


def test_all_of_the_code_may_be_saved():
    """Augmentation took 5 ms while the device idled and 15 beside it; without it a step took 17 ms less."""
    found = finding(30.0)
    assert (found.savings.low, found.savings.high) == (pytest.approx(20.0), pytest.approx(50.0))
    assert found.savings.note == BESIDE_IT
    assert found.confidence == "medium"


@pytest.mark.parametrize(
    "facts",
    [
        {"device": "TPU v5e"},
        {"waited": WAITED - 0.01},
        {"waited": None, "used": 0.0},
        {"waited": None, "used": ALL_CPUS_FROM_SHARE - 0.01},
    ],
)
def test_where_the_device_has_cpus_of_its_own_the_replay_says_it(facts):
    found = finding(30.0, **facts)
    assert (found.savings.high, found.savings.note) == (pytest.approx(20.0), "")
    assert found.confidence == "high"


def test_a_program_that_uses_all_cpus_has_none_to_spare():
    found = finding(30.0, waited=None, used=ALL_CPUS_FROM_SHARE + 0.01)
    assert found.savings.high == pytest.approx(50.0)


@pytest.mark.parametrize(("hidden", "confidence"), [(3.9, "high"), (4.1, "medium")])
def test_a_little_of_it_beside_the_device_is_no_doubt(hidden, confidence):
    assert finding(hidden).confidence == confidence


@pytest.mark.parametrize(("cpus", "high"), [(2, 62.5), (4, 43.75), (1, 90.0)])
def test_a_thread_takes_one_cpu_of_the_device_at_most(cpus, high):
    """The device was busy for 17.9 of 24.5 ms, and "up to 24.0 ms" was said: 15.5 were saved."""
    assert finding(70.0, cpus=cpus).savings.high == pytest.approx(high)
