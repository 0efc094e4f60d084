"""Where host and device take turns, waits for a CPU leave open which of the two is the slower."""

from dataclasses import replace

import pytest

from tests.model.test_verdict import load
from tpuprof.model.decisions import Decisions
from tpuprof.model.verdict import bound_of
from tpuprof.model.verdict_sentence import sentence

# Host and device of 100 ms, of which the runtime waits; and the share of waits from which either may be the slower.
SLOW_DEVICE = replace(load({"tracing": 35}, host_work=40, waited=50), on_cpu=True)
OPEN_FROM = 1 - 40 / 65


def test_a_device_on_taken_cpus_may_not_be_the_slower():
    """Of one program with Hugging Face's Trainer one capture said "Tracing-bound", the next "Mostly device-bound"."""
    taken = replace(SLOW_DEVICE, cpu_wait=OPEN_FROM + 0.01)
    bound = bound_of(taken)
    assert bound.word == "undecided"
    text = sentence(bound, taken, 0.0)
    assert text.startswith(
        "Undecided: host and device wait for each other, and which of them is slower is unknown: the program's threads "
        "waited for a CPU for 39 % of the time that they could have run."
    )
    assert "The device is busy for 65.0 ms" in text
    assert (
        "the host works for 40.0 ms, most of it tracing, and the device idles meanwhile for 35.0 ms" in text
    )
    assert bound_of(replace(SLOW_DEVICE, cpu_wait=OPEN_FROM - 0.01)).word == "device"


def test_a_device_of_its_own_waits_for_no_cpu():
    assert bound_of(replace(SLOW_DEVICE, on_cpu=False, cpu_wait=0.6)).word == "device"


@pytest.mark.parametrize(("cpu_wait", "word"), [(0.0, "tracing"), (0.24, "tracing"), (0.26, "undecided")])
def test_a_host_on_taken_cpus_may_not_be_the_slower(cpu_wait, word):
    slow_host = replace(load({"tracing": 60}, host_work=40 / 0.75, waited=30), cpu_wait=cpu_wait)
    why = Decisions()
    assert bound_of(slow_host, why).word == word
    assert any("without waits for a CPU" in each.question for each in why.made) == bool(cpu_wait)


def test_a_host_that_hardly_waits_is_named_whatever_the_cpus_do():
    assert bound_of(replace(load({"tracing": 60}, host_work=60, waited=5), cpu_wait=0.9)).word == "tracing"


@pytest.mark.parametrize(
    ("waited", "tracing", "said"), [(30.0, 48, True), (10.0, 48, False), (30.0, 22, False)]
)
def test_a_read_is_not_the_only_cause_of_turns(waited, tracing, said):
    """A read by an attention's mask cost 41 ms at most; the runtime waited 144 ms more, as it does without the read."""
    turns = replace(
        load({"tracing": tracing, "dispatch": 48 - tracing}, host_work=55, reads=1.0, waited=waited),
        blocked=13.0,
    )
    bound = bound_of(turns)
    assert (bound.word, bound.ms) == ("sync", 13.0)
    more = " The host waits longer for the device inside the runtime, 30.0 ms, and the device idles 48.0 ms while the"
    assert (more in sentence(bound, turns, 0.0)) == said
