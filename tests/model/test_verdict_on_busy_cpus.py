"""Where host and device take turns, waits for a CPU leave open which of the two is the slower."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.model.test_verdict import load
from tpuprof.model.busy_machine import ALL_CPUS_FROM_SHARE, DOUBTFUL_FROM_SHARE, busy_machine, waits_of_each
from tpuprof.model.decisions import Decisions
from tpuprof.model.verdict import bound_of
from tpuprof.model.verdict_sentence import sentence

# Host and device of 100 ms, of which the runtime waits; and the device's share of waits from which the host is slower.
SLOW_DEVICE = replace(load({"tracing": 35}, host_work=40, waited=50), cpu_wait=0.44)
OPEN_FROM = 1 - 40 / 65


def test_a_device_on_taken_cpus_may_not_be_the_slower():
    """Of one program with Hugging Face's Trainer one capture said "Tracing-bound", the next "Mostly device-bound"."""
    taken = replace(SLOW_DEVICE, device_wait=OPEN_FROM + 0.01)
    bound = bound_of(taken)
    assert bound.word == "undecided"
    text = sentence(bound, taken, 0.0)
    assert text.startswith(
        "Undecided: host and device wait for each other, and which of them is slower is unknown: the program's threads "
        "waited for a CPU for 44 % of the time that they could have run."
    )
    assert "The device is busy for 65.0 ms" in text
    assert (
        "the host works for 40.0 ms, most of it tracing, and the device idles meanwhile for 35.0 ms" in text
    )
    assert bound_of(replace(SLOW_DEVICE, device_wait=OPEN_FROM - 0.01)).word == "device"


def test_a_host_that_waits_as_much_is_still_the_faster():
    both = replace(SLOW_DEVICE, device_wait=OPEN_FROM + 0.01, host_wait=OPEN_FROM + 0.01)
    assert bound_of(both).word == "device"


@pytest.mark.parametrize(("host_wait", "word"), [(0.0, "tracing"), (0.24, "tracing"), (0.26, "undecided")])
def test_a_host_on_taken_cpus_may_not_be_the_slower(host_wait, word):
    slow_host = load({"tracing": 60}, host_work=40 / 0.75, waited=30)
    why = Decisions()
    assert bound_of(replace(slow_host, cpu_wait=host_wait, host_wait=host_wait), why).word == word
    assert any("wait for a CPU" in each.question for each in why.made) == bool(host_wait)


def test_a_host_that_hardly_waits_for_the_device_is_named_whatever_the_cpus_do():
    taken = replace(load({"tracing": 60}, host_work=60, waited=5), cpu_wait=0.9, host_wait=0.9)
    assert bound_of(taken).word == "tracing"


def noted(share=0.5, used=1.0):
    return {"capture": {"cpu_wait_share": share, "cpus_used": used}}


def test_samples_tell_whose_the_waits_are():
    """A second on one CPU, and as much of waits: the training thread ran for 0.4 of it and waited for 0.1."""
    samples = SimpleNamespace(ran=400, waited=100, covered=1000)
    assert waits_of_each(noted(), samples) == (pytest.approx(0.2), pytest.approx(0.6))
    assert waits_of_each(noted(), None) == (0.5, 0.5)
    assert waits_of_each(noted(used=None), samples) == (0.5, 0.5)
    assert waits_of_each(noted(used=0.3), samples) == (pytest.approx(0.2), 0.5)
    assert waits_of_each({}, samples) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("waited", "tracing", "said"), [(30.0, 48, True), (10.0, 48, False), (30.0, 22, False)]
)
def test_a_read_is_not_the_only_cause_of_turns(waited, tracing, said):
    """A read by an attention's mask cost 41 ms at most; the runtime waited 144 ms more, as it does without the read."""
    turns = load({"tracing": tracing, "dispatch": 48 - tracing}, host_work=55, reads=1.0, waited=waited)
    turns = replace(turns, blocked=13.0)
    bound = bound_of(turns)
    assert (bound.word, bound.ms) == ("sync", 13.0)
    more = " The host waits longer for the device inside the runtime, 30.0 ms, and the device idles 48.0 ms while the"
    assert (more in sentence(bound, turns, 0.0)) == said


@pytest.mark.parametrize(("used", "free"), [(ALL_CPUS_FROM_SHARE, False), (ALL_CPUS_FROM_SHARE - 0.01, True)])
def test_a_free_machine_is_advised_where_other_work_had_the_cpus(used, free):
    """Four devices on two CPUs wait for them on a free machine as well."""
    facts = {"cpu_wait_share": DOUBTFUL_FROM_SHARE, "cpus_used": 2 * used, "cpus": 2.0}
    (said,) = busy_machine({"capture": facts})
    assert said.endswith("capture again on a free machine") is free
    assert ("the program itself used 85 % of the CPUs" in said) is not free
