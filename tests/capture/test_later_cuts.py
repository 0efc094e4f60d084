"""Graph cuts after the capture: what ends a step and what compiles is noticed, though most cuts are only timed."""

import sys
import threading
from types import SimpleNamespace

import pytest

from tpuprof.capture import aftermath, rests
from tpuprof.capture.aftermath import Aftermath
from tpuprof.capture.boundaries import OPTIMIZER, StepBoundaries
from tpuprof.capture.followed_thread import FollowedThread
from tpuprof.capture.later_cuts import CLOSELY_FOR_STEPS, COMPILES_FROM_SECONDS, LONGER_THAN, LaterCuts
from tpuprof.capture.rests import BEHIND_SHARE, FOLLOWED, FOLLOWING_SECONDS, MOST_SHARE
from tpuprof.instrument import spans, step_count, sync_guard


class Extension:
    """Cuts graphs and compiles, with a clock of its own."""

    def __init__(self):
        self.now = 0.0
        self.compiled = self.cached = self.asked = 0
        self.compile_ns = 0.0
        self.slow = self.compiles_in_cut = 0.0
        self.raises = None

    def _xla_step_marker(self, *_args, **_kwargs):
        if self.compiles_in_cut:
            self.compiles(self.compiles_in_cut)
            self.compiles_in_cut = 0.0
        self.now += 0.0001 + self.slow
        if self.raises:
            raise self.raises
        self.cached += 1

    def compiles(self, seconds):
        self.now += seconds
        self.compiled, self.compile_ns = self.compiled + 1, self.compile_ns + 1e9 * seconds

    def _xla_counter_value(self, name):
        self.asked += 1
        return {"UncachedCompile": self.compiled, "CachedCompile": self.cached}[name]

    def _xla_metric_data(self, _name):
        return (self.compiled, self.compile_ns, [])


@pytest.fixture(params=["native", "python"])
def run(monkeypatch, request):
    """A program after its capture: `cuts(n, optimizer=...)` is one step; `written` what was kept of it."""
    if request.param == "native":
        pytest.importorskip("tpuprof.instrument._counted")
    else:
        monkeypatch.setattr(sync_guard, "_native_guard", None)
        monkeypatch.setattr(sync_guard._Resting, "guard", None)
        monkeypatch.setattr(rests, "step_count", step_count.PythonStepCount)
    extension, written, graphs = Extension(), [], [0]
    clock = SimpleNamespace(perf_counter=lambda: extension.now, monotonic=lambda: extension.now)
    monkeypatch.setattr(sync_guard, "time", clock)
    monkeypatch.setattr(aftermath, "time", clock)
    monkeypatch.setattr(rests, "time", clock)
    monkeypatch.setattr(aftermath, "user_frames", lambda: ["train (x.py:7)"])
    monkeypatch.setitem(sys.modules, "torch_xla", SimpleNamespace(_XLAC=extension))
    assert sync_guard.install()
    boundaries, after = StepBoundaries(), Aftermath(extension, written.append)

    def ran(so_far):
        if so_far != graphs[0]:
            graphs[0] = so_far
            if later._boundaries.cut(gradients=lambda: True):
                later.step_ended(marked=False)

    later = LaterCuts(after, FollowedThread(), boundaries, ran)
    later.follow()

    def step(cuts, optimizer=True):
        for number in range(cuts):
            if optimizer and number == cuts - 1 and not later.rest.of(OPTIMIZER).passes():
                boundaries.optimizer_called(0)
            extension._xla_step_marker()

    def steps():
        later.rest.count()
        return after.found.steps

    step(1)
    yield SimpleNamespace(
        steps=steps,
        extension=extension,
        step=step,
        after=after,
        written=written,
        later=later,
    )
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
    run.step(3)
    run.extension.compiles_in_cut = 0.3
    run.step(1)
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


def test_short_steps_are_mostly_only_counted(run):
    for _ in range(FOLLOWED):
        run.step(11)
    assert run.later.rest.on
    asked = run.extension.asked
    for _ in range(2 * FOLLOWED):
        run.step(11)
    assert run.later.rest.on
    assert run.extension.asked == asked
    run.later.stop()
    run.after.close()
    assert run.written[-1]["steps"] == 1 + 3 * FOLLOWED
    assert sum(run.written[-1]["lengths"].values()) == 1 + 3 * FOLLOWED
    assert run.written[-1]["steps_seconds"] == pytest.approx(run.extension.now, rel=0.01)


@pytest.mark.parametrize(("factor", "rests"), [(0.45, True), (0.55, False)])
def test_steps_that_following_does_not_lengthen_are_followed_to_the_end(run, factor, rests):
    run.extension.slow = factor * FOLLOWING_SECONDS / MOST_SHARE
    for _ in range(2 * FOLLOWED):
        run.step(1)
    assert run.later.rest.on == rests


@pytest.fixture
def resting(run):
    """A program with steps of 20 ms in a rest. A step of `long` takes 12 ms more; it may compile meanwhile, at a read."""
    run.extension.slow = 0.02
    for _ in range(FOLLOWED):
        run.step(1)
    assert run.later.rest.on

    def long(*, compiles=False):
        if compiles:
            run.extension.compiles(0.012)
        else:
            run.extension.now += 0.012
        run.step(1)

    run.long = long
    return run


def test_long_steps_that_compiled_nothing_only_interrupt_the_rest(resting):
    for _ in range(3):
        resting.long()
        assert resting.later.rest.on
        resting.step(1)
    assert resting.later.rest.on
    assert resting.steps() == 1 + FOLLOWED + 6
    assert resting.after.found.compiling_steps == 0


def test_two_long_steps_in_a_row_end_the_rest(resting):
    resting.long()
    assert resting.later.rest.on
    resting.long()
    assert not resting.later.rest.on


def test_a_long_step_that_compiled_ends_the_rest(resting):
    resting.long(compiles=True)
    assert not resting.later.rest.on
    assert resting.after.found.compiling_steps == 1


def test_an_interrupted_rest_ends_when_it_was_due(resting):
    left = resting.later.rest._count.left
    resting.long()
    for _ in range(left - 2):
        resting.step(1)
    assert resting.later.rest.on
    resting.step(1)
    assert not resting.later.rest.on


def test_steps_of_a_program_without_an_optimizer_are_counted_in_a_rest(run):
    run.step(1)
    boundaries = StepBoundaries()
    run.later._boundaries = boundaries
    run.after.found.steps = 0
    for _ in range(3 * FOLLOWED):
        run.step(1, optimizer=False)
    assert run.later.rest.on
    assert run.steps() == 3 * FOLLOWED


def test_steps_that_the_program_marks_are_counted_in_a_rest(run):
    before = run.steps()
    for _ in range(3 * FOLLOWED):
        run.extension._xla_step_marker()
        run.later.step_ended(marked=True)
    assert run.later.rest.on
    assert run.steps() == before + 3 * FOLLOWED


def test_a_compile_in_a_cut_of_a_rest_has_its_line_and_step(run):
    for _ in range(FOLLOWED + 5):
        run.step(1)
    assert run.later.rest.on
    after = run.steps()

    run.extension.compiles_in_cut = 0.3
    run.step(1)
    run.step(1)
    assert not run.later.rest.on
    run.later.stop()
    run.after.close()
    (line,) = run.written[-1]["lines"].values()
    assert line["frames"] == ["train (x.py:7)"]
    # The call of the optimizer ends the step in a rest, and the graph cut comes behind it.
    assert line["steps"] == [after + 1]


def test_a_compile_at_a_read_in_a_rest_ends_it(run):
    for _ in range(FOLLOWED + 5):
        run.step(1)
    assert run.later.rest.on
    for _ in range(3):
        run.extension.compiles(0.3)
        run.step(1)
    assert not run.later.rest.on
    run.later.stop()
    run.after.close()
    assert run.written[-1]["graphs"] == 3
    assert run.written[-1]["compiling_steps"] == 3


def test_cuts_that_wait_for_the_device_in_each_step_are_not_looked_at_in_a_rest(run):
    run.extension.slow = 2 * COMPILES_FROM_SECONDS
    for _ in range(FOLLOWED + 2):
        run.step(1)
    assert run.later.rest.on
    asked, before = run.extension.asked, run.steps()
    for _ in range(20):
        run.step(1)
    assert run.extension.asked == asked
    assert run.steps() == before + 20

    run.extension.compiles_in_cut = LONGER_THAN * run.extension.slow
    run.step(1)
    run.later.stop()
    run.after.close()
    assert [*run.written[-1]["lines"]] == ["train (x.py:7)"]


def test_a_compile_in_a_cut_that_waits_long_anyway_has_its_line(resting):
    resting.extension.compiles_in_cut = 0.006  # less than such a cut waits for the device
    resting.step(1)
    resting.later.stop()
    resting.after.close()
    assert [*resting.written[-1]["lines"]] == ["train (x.py:7)"]


@pytest.mark.parametrize(("share", "own"), [(0.9, True), (1.1, False)])
def test_what_compiles_long_behind_the_last_step_of_a_rest_is_no_step(resting, share, own):
    """An evaluation after training, beside the graph cut of the last step, which comes behind the optimizer's call."""
    resting.step(1)
    assert not resting.after.marked
    boundaries = resting.later.rest
    assert boundaries.of(OPTIMIZER).passes()
    resting.extension.now += share * BEHIND_SHARE * 0.0301  # longer by 10 ms than steps of 20.1 ms
    resting.extension.compiles_in_cut = 0.5
    resting.extension._xla_step_marker()
    resting.later.stop()
    resting.after.close()
    assert resting.written[-1]["graphs"] == own
    assert resting.written[-1]["compiling_steps"] == own


@pytest.mark.parametrize("marked", [True, False])
def test_whether_the_program_marks_its_steps_is_known(run, marked):
    run.later.step_ended(marked=marked)
    assert run.after.marked is marked


def test_who_observes_cuts_in_a_rest_is_called_and_steps_are_counted(run):
    """`tpuprof.expect` counts compiles at cuts, and may begin at any time."""
    for _ in range(FOLLOWED + 2):
        run.step(1)
    assert run.later.rest.on
    seen, before, asked = [], run.steps(), run.extension.asked
    observers = (lambda: seen.append("before"), lambda: seen.append("after"))
    sync_guard.observe(*observers)
    for _ in range(3):
        run.step(1)
    sync_guard.stop_observing(*observers)
    run.step(1)
    assert seen == ["before", "after"] * 3
    assert run.steps() == before + 4
    assert run.extension.asked == asked


def test_a_scope_that_is_opened_in_a_rest_is_lifted_over_the_cut(run):
    """torch_xla raises an error where it finds one: a server for profiles may arm annotations at any time."""
    for _ in range(FOLLOWED + 2):
        run.step(1)
    assert run.later.rest.on
    span = SimpleNamespace(scope="pushed", scope_name="")
    spans.hold(span)
    run.step(1)
    spans.OPEN.stack.remove(span)
    assert span.scope is None


def test_what_the_cut_itself_raises_reaches_the_program_in_a_rest_and_our_own_errors_do_not(run, monkeypatch):
    for _ in range(FOLLOWED + 2):
        run.step(1)
    assert run.later.rest.on
    run.extension.raises = KeyError("the program's")
    with pytest.raises(KeyError, match="the program's"):
        run.extension._xla_step_marker("device", wait=True)
    assert run.later.rest.on

    run.extension.raises = None
    notes = []
    monkeypatch.setattr(rests, "note_failure", lambda what, error: notes.append(str(error)))
    monkeypatch.setattr(run.after, "count_step", lambda _now: int("ours"))
    run.step(1)
    run.later.rest.ends_with_step()
    run.step(1)
    assert "ours" in notes[0]
    monkeypatch.delattr(run.after, "count_step")


def test_events_of_other_threads_are_no_steps_of_a_rest(run):
    for _ in range(FOLLOWED):
        run.step(1)
    before = run.steps()
    other = threading.Thread(target=run.step, args=(3,))
    other.start(), other.join()
    assert run.later.rest.on
    assert run.steps() == before
