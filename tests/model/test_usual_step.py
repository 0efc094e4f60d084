"""A cause that one captured step holds, and that steps after the capture lack, is not what the usual step waits for."""

import math

import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.sections.steps import mean_step
from tpuprof.analysis.sections.usual_step import usual_step
from tpuprof.model import comes_again
from tpuprof.model.compile import recurrence
from tpuprof.model.compile.recurrence import CLASSES_PER_DOUBLING, AfterCapture, History
from tpuprof.model.decisions import Decisions
from tpuprof.model.host_run import read_host_run
from tpuprof.model.outside_capture import AS_LONG_FROM
from tpuprof.model.verdict import bound_of

# Of each of eight steps (ms): the next batch, and how long Python collects garbage in one of them.
BATCH, COLLECTS = 30, 320
MEAN = BATCH + 10 + COLLECTS / 8


@pytest.fixture
def found(tmp_path):
    """The usual step of eight, of which so many collect garbage, where later ones took so long on average (ms)."""

    def finder(later, *, collecting=1, steps=40, lengths=None, compiling=0, compile_later=0):
        trace, start = TraceBuilder(), 0
        python = trace.host().line("python")
        device = trace.tpu(0).line("XLA Modules")
        ops = trace.tpu(0).line("XLA Ops")
        for step in range(8):
            collects = COLLECTS * 1000 // collecting if step < collecting else 0
            compiles = compiling * 1000 if collects else 0
            length = (BATCH + 10) * 1000 + collects + compiles
            python.event("train_step", start, length, _r=1, step_num=step)
            python.event("StepMarker", start + length - 100, 100)
            python.event("SyncTensorsGraph", start + length - 100, 100)
            python.event("tpuprof.dataloader.next", start, BATCH * 1000)
            if collects:
                python.event("tpuprof.gc", start + BATCH * 1000, collects)
            if compiles:
                python.event("XLAGraphExecutor::Compile", start + BATCH * 1000 + collects, compiles)
            device.event("step(7)", start + length - 10_000, 10_000)
            ops.event("dot.1", start + length - 10_000, 10_000)
            start += length
        seen = (
            AfterCapture(
                steps, compile_later, 0, 0.0, later * steps / 1000, ended=True, lengths=lengths or {}
            )
            if later
            else None
        )
        host = read_host_run("h", trace.write(tmp_path / "h.xplane.pb"), history=History([], seen))
        times, _ = mean_step([host])
        decisions = Decisions()
        return usual_step([host], bound_of(times, decisions), times, decisions)

    return finder


def named(usual):
    return usual.bound.name or usual.bound.word


def test_what_comes_seldom_is_said_after_what_holds_the_usual_step(found):
    usual = found(BATCH + 11)
    assert named(usual) == "input"
    assert usual.times.wall == pytest.approx(BATCH + 11)
    assert usual.bound.share == pytest.approx(BATCH / (BATCH + 11))
    assert "1 of 8 captured steps also holds garbage collections (40.0 ms per step on average)" in usual.note
    assert "the 40 steps after the capture took 41.0 ms on average" in usual.note


@pytest.mark.parametrize(("compile_later", "name"), [(0, "input"), (1, "compile")])
def test_compiles_that_never_come_again_go_with_what_comes_seldom(found, monkeypatch, compile_later, name):
    """Reads and compiles took most of the first validation: "compile-bound ... that is the usual step" was said."""
    # The compiles alone do not explain that step.
    monkeypatch.setattr(recurrence, "EXPLAINS_FROM_SHARE", 2.0)
    assert named(found(BATCH + 11, compiling=280, compile_later=compile_later)) == name


@pytest.mark.parametrize(("lack", "name"), [(19.9, "gc"), (20.1, "input")])
def test_half_of_what_one_step_holds_must_be_gone_later(found, lack, name):
    """A checkpoint every tenth step, say: later steps are about as long on average."""
    usual = found(MEAN - lack)
    assert named(usual) == name
    assert bool(usual.note) == (name != "gc")


@pytest.mark.parametrize("facts", [{"later": None}, {"later": BATCH + 11, "steps": 5}])
def test_where_no_later_steps_were_counted_it_is_said_first(found, facts):
    assert named(found(**facts)) == "gc"


def test_what_several_steps_hold_is_the_rhythm_of_the_run(found):
    assert named(found(BATCH + 11, collecting=2)) == "gc"


def class_of(ms):
    """The class of steps of that length in the notes on what came after a capture."""
    return round(CLASSES_PER_DOUBLING * math.log2(1000 * ms))


LONG, SHORT = class_of(BATCH + 10 + COLLECTS), class_of(2 * (BATCH + 10))


@pytest.mark.parametrize(
    ("lengths", "name"),
    [
        ({SHORT: 39, LONG: 1}, "input"),
        ({SHORT: 38, LONG: 2}, "input"),
        ({SHORT: 37, LONG: 3}, "gc"),
        ({SHORT: 10}, "gc"),
        ({}, "gc"),
    ],
)
def test_how_seldom_steps_are_as_long_later_is_seen_where_all_of_them_are_slower(found, lengths, name):
    """An epoch began in one of nine steps: "Input-bound", as other work made all later steps longer."""
    usual = found(2 * (BATCH + 10) + 1, lengths=lengths)
    assert named(usual) == name
    assert ("few steps after the capture took as long" in usual.note) is (name == "input")


@pytest.mark.parametrize(("share", "name"), [(AS_LONG_FROM - 0.1, "input"), (AS_LONG_FROM + 0.1, "gc")])
def test_how_long_a_later_step_must_be_to_count(found, share, name):
    as_long = class_of(share * (BATCH + 10 + COLLECTS))
    assert named(found(2 * (BATCH + 10) + 1, lengths={SHORT: 20, as_long: 20})) == name


@pytest.mark.parametrize(("later", "name"), [(None, "input"), (19.9, "input"), (20.1, "gc")])
def test_looks_at_later_steps_tell_how_much_of_it_comes_again(found, monkeypatch, later, name):
    """Mining once in 67 steps held 25 % of the time, and as much later: "more seldom", as the machine was quieter."""
    monkeypatch.setattr(comes_again, "later_cost", lambda host, row: later if row == 0 else None)
    assert named(found(BATCH + 11)) == name
