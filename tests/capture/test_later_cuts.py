"""Graph cuts after the capture: what ends a step and what compiles is noticed, though most cuts are only timed."""

import sys
from types import SimpleNamespace

import pytest

from tpuprof.capture import aftermath
from tpuprof.capture.aftermath import Aftermath
from tpuprof.capture.boundaries import StepBoundaries
from tpuprof.capture.followed_thread import FollowedThread
from tpuprof.capture.later_cuts import CLOSELY_FOR_STEPS, LaterCuts
from tpuprof.instrument import sync_guard


class Extension:
    """Cuts graphs and compiles, with a clock of its own."""

    def __init__(self):
        self.now = 0.0
        self.compiled = self.cached = self.asked = 0
        self.compile_ns = 0.0
        self.slow = 0.0

    def _xla_step_marker(self, *_args, **_kwargs):
        self.now += 0.0001 + self.slow
        self.cached += 1

    def compiles(self, seconds):
        self.now += seconds
        self.compiled, self.compile_ns = self.compiled + 1, self.compile_ns + 1e9 * seconds

    def _xla_counter_value(self, name):
        self.asked += 1
        return {"UncachedCompile": self.compiled, "CachedCompile": self.cached}[name]

    def _xla_metric_data(self, _name):
        return (self.compiled, self.compile_ns, [])


@pytest.fixture
def run(monkeypatch):
    """A program after its capture: `cuts(n, optimizer=...)` is one step; `written` what was kept of it."""
    extension, written, graphs = Extension(), [], [0]
    clock = SimpleNamespace(perf_counter=lambda: extension.now, monotonic=lambda: extension.now)
    monkeypatch.setattr(sync_guard, "time", clock)
    monkeypatch.setattr(aftermath, "time", clock)
    monkeypatch.setattr(aftermath, "user_frames", lambda: ["train (x.py:7)"])
    monkeypatch.setitem(sys.modules, "torch_xla", SimpleNamespace(_XLAC=extension))
    assert sync_guard.install()
    boundaries, after = StepBoundaries(), Aftermath(extension, written.append)

    def ran(so_far):
        if so_far != graphs[0]:
            graphs[0] = so_far
            if boundaries.cut(gradients=lambda: True):
                after.step_ended()

    later = LaterCuts(after, FollowedThread(), boundaries, ran)
    later.follow()

    def step(cuts, optimizer=True):
        for number in range(cuts):
            if optimizer and number == cuts - 1:
                boundaries.optimizer_called(0)
            extension._xla_step_marker()

    step(1)
    yield SimpleNamespace(extension=extension, step=step, after=after, written=written)
    later.stop()
    assert vars(extension).get("_xla_step_marker") is None


def test_steps_of_many_cuts_are_counted_and_counters_are_asked_once_per_step(run):
    asked = run.extension.asked
    for _ in range(10):
        run.step(11)
    run.after.close()
    assert run.written[-1]["steps"] == 11
    assert run.extension.asked - asked < 5 * 10


def test_without_an_optimizer_each_cut_is_a_step(run):
    run.after.found.steps = 0
    boundaries = StepBoundaries()
    LaterCuts(run.after, FollowedThread(), boundaries, lambda _: run.after.step_ended())._ended(0.0001)
    assert run.after.found.steps == 1


def test_a_compile_in_a_cut_has_the_line_of_the_cut(run):
    extension = run.extension
    cut = type(extension)._xla_step_marker
    run.step(3)

    def compiles(self, *_args, **_kwargs):
        self.compiles(0.3)
        cut(self)

    type(extension)._xla_step_marker, kept = compiles, cut
    try:
        sync_guard.remove(), sync_guard.install()
        run.step(1)
    finally:
        type(extension)._xla_step_marker = kept
    sync_guard.remove(), sync_guard.install()
    run.after.close()
    (name,) = run.written[-1]["lines"]
    assert name == "train (x.py:7)"
    assert run.written[-1]["lines"][name]["graphs"] == 1


def test_a_compile_at_a_read_has_no_line_though_the_cut_behind_it_waits(run):
    run.step(3)
    run.extension.compiles(0.3)
    run.extension.slow = 0.01
    run.step(1)
    # From now on cuts are looked at before they begin, and that ends.
    run.extension.compiles(0.001)
    run.step(1)
    run.extension.slow = 0.0
    for _ in range(2 * CLOSELY_FOR_STEPS):
        run.step(1)
    assert not sync_guard._before
    run.after.close()
    assert [*run.written[-1]["lines"]] == ["unknown"]
    assert run.written[-1]["graphs"] == 2


def test_what_fails_of_ours_does_not_reach_training(run, monkeypatch):
    def fails(_seconds):
        raise ValueError("ours")

    sync_guard.observe_ends(fails)
    run.step(3)
    sync_guard.stop_observing(ended=fails)
