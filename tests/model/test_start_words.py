"""A run that compiled for most of its time before the captured steps says so with the verdict."""

from types import SimpleNamespace

import pytest

from tpuprof.analysis.sections.start_words import MOST_FROM_SHARE, said_of_start
from tpuprof.model.compile.recurrence import AfterCapture
from tpuprof.model.telemetry import StepRecord
from tpuprof.rules.thresholds import SLOW_COMPILE_FROM_SECONDS
from tpuprof.units import NS_PER_S


def host(compiled, *, rest=1.0, ended=True, estimated=False):
    """A host that compiled for so many seconds at its start; all else took `rest`."""
    start = StepRecord(0, int(compiled * NS_PER_S), False, compiles=3, compile_seconds=compiled)
    inside = StepRecord(1, int(0.5 * NS_PER_S), True)
    after = AfterCapture(100, 0, 0, 0.0, rest - 0.5, ended, estimated=estimated)
    return SimpleNamespace(records=[start, inside], after=after)


def test_a_run_that_mostly_compiled_says_so():
    """A queue with 34 positions compiled for 63 of a run's 68 s; the verdict was on the milliseconds that were left."""
    said = said_of_start([host(63.0, rest=5.0), host(30.0, rest=5.0)])
    assert said == (
        " The run took 68.0 s. For 63.0 s of it (93 %) XLA compiled before the captured steps: that is start-up, and in "
        "none of these shares."
    )


@pytest.mark.parametrize(("more", "told"), [(0.1, True), (-0.1, False)])
def test_it_has_to_be_long_and_most_of_the_run(more, told):
    assert bool(said_of_start([host(SLOW_COMPILE_FROM_SECONDS + more)])) == told
    seconds = 100.0 + more
    assert bool(said_of_start([host(seconds, rest=100.0 * (1 / MOST_FROM_SHARE - 1))])) == told


@pytest.mark.parametrize("other", [{"ended": False}, {"estimated": True}])
def test_of_a_run_whose_length_is_unknown_nothing_is_said(other):
    assert said_of_start([host(63.0, **other)]) == ""


def test_without_notes_nothing_is_said():
    assert said_of_start([SimpleNamespace(records=[], after=None)]) == ""
