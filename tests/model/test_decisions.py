"""The comparisons noted for a verdict are those that make it."""

import dataclasses

import pytest

from tests.model.test_verdict import load
from tpuprof.model.decisions import Decisions
from tpuprof.model.device.cpu import Queue
from tpuprof.model.verdict import SLOWER_FROM, bound_of
from tpuprof.model.verdict_words import NAMED_FROM_SHARE


def decided(step):
    why = Decisions()
    bound = bound_of(step, why)
    assert bound == bound_of(step)
    return bound, why.made


@pytest.mark.parametrize(
    ("step", "word", "last"),
    [
        (load({"input_wait": 10.1}), "input", "it is large enough to name"),
        (load({"input_wait": 9.9}), "device", "device-bound"),
        (load({"input_wait": 9.9, "compile": 9.8}), "device", "mostly device-bound"),
        (load({"tracing": 40}, host_work=60, reads=1.0), "sync", "sync-bound"),
        (load({"tracing": 40}, host_work=60, reads=0.4), "tracing", "the host holds the step back"),
        (load({"tracing": 40}, host_work=60 / SLOWER_FROM, waited=50), "device", "mostly device-bound"),
        (load({"tracing": 40}, host_work=60, waited=50), "undecided", "undecided"),
        (
            dataclasses.replace(load({"tracing": 40}), behind=Queue(9, 2)),
            "undecided",
            "whether it idles is unknown",
        ),
    ],
)
def test_the_last_decision_is_the_verdict(step, word, last):
    bound, made = decided(step)
    assert bound.word == word
    assert last in made[-1].follows


def test_every_number_holds_where_it_reaches_its_threshold():
    for step in (
        load({"tracing": 40}, host_work=60, waited=50),
        load({"dispatch": 12, "compile": 11}, reads=1.0),
    ):
        _, made = decided(step)
        assert len(made) > 1
        for each in made:
            if each.value is not None:
                assert each.holds is (each.value >= each.threshold), each
            assert each.follows != each.otherwise


def test_what_would_have_changed_it_does():
    """Moving the part to the other side of the noted threshold gives the noted answer."""
    _, made = decided(load({"input_wait": 30}))
    noted = next(each for each in made if each.threshold == NAMED_FROM_SHARE)
    assert noted.holds
    less = load({"input_wait": 100 * noted.threshold - 0.01})
    assert bound_of(less).word == "device"
    assert "the device decides" in noted.otherwise


def test_a_step_without_time_decides_nothing():
    assert decided(load({}, wall=0.0))[1] == []
