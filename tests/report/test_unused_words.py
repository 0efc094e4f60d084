"""A verdict of a busy device says how much of its time is for gradients that no optimizer uses."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tpuprof.analysis.sections import verdict
from tpuprof.analysis.sections.unused_words import UNUSED_FROM_SHARE, said_of_unused
from tpuprof.model.device.unused_gradients import UnusedWork
from tpuprof.model.step_times import Bound, StepTimes
from tpuprof.report.schema import OpRow


def op(name, ms, kind="compute"):
    return OpRow(name, "", kind, "step", 1, ms, ms, None, None, "", "", self_ms_per_step=ms)


OPS = [op("dot.1", 30.0), op("dot.2", 20.0), op("dot.3", 50.0), op("all-reduce", 900.0, "collective")]


def run(sure=(), possible=(), **more):
    facts = {"found": {(4, 4): 1}, "multiplies": True, **more}
    ops = (frozenset(("step", name) for name in names) for names in (sure, possible))
    return SimpleNamespace(hosts=[SimpleNamespace(unused=UnusedWork(*ops, **facts))])


def test_the_share_is_of_what_the_device_computes():
    said = " 30 % to 50 % of the device's time computes gradients that no optimizer uses."
    assert said_of_unused(run(["dot.1"], ["dot.1", "dot.2"]), OPS) == said
    assert said_of_unused(run(["dot.3"], ["dot.3"]), OPS).startswith(" 50 % of the")


@pytest.mark.parametrize(("ms", "said"), [(UNUSED_FROM_SHARE, True), (UNUSED_FROM_SHARE - 0.01, False)])
def test_little_of_it_is_not_said(ms, said):
    rows = [op("dot.1", ms), op("dot.2", 1 - ms)]
    assert bool(said_of_unused(run(["dot.1"], ["dot.1"]), rows)) == said


@pytest.mark.parametrize("more", [{"found": {}}, {"multiplies": False}])
def test_work_that_is_not_in_the_programs_is_not_said(more):
    assert said_of_unused(run(["dot.3"], ["dot.3"], **more), OPS) == ""


def test_nothing_is_said_of_a_run_whose_gradients_are_all_used():
    assert said_of_unused(SimpleNamespace(hosts=[SimpleNamespace(unused=None)]), OPS) == ""


def test_it_is_said_of_turns_that_leave_the_device_to_hold_the_step_back():
    """A third of what the device computed was for nothing; the verdict named how the host waits for it."""
    found = run(["dot.3"], ["dot.3"])
    found.hosts[0].devices = []
    rows = SimpleNamespace(ops=OPS)
    times = StepTimes(100.0, {"compute": 60.0}, busy=60.0, host_work=40.0, reads_share=0.0)
    turns = Bound("device", 0.6, 60.0, turns=40.0)
    assert verdict._detail(found, turns, times, rows) == said_of_unused(found, OPS) != ""
    assert verdict._detail(found, replace(turns, word="tracing"), times, rows) == ""
