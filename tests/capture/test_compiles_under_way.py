"""Whether torch_xla compiles right now: it counts a compile as that begins, and again as it ends."""

from types import SimpleNamespace

import pytest

from tpuprof.capture.by_clock import ByClock
from tpuprof.capture.telemetry import Telemetry


class Extension:
    def __init__(self, begun=0, ended=0, loaded=0, spent_ns=1.0):
        self.begun, self.ended, self.loaded, self.spent_ns = begun, ended, loaded, spent_ns

    def _xla_counter_value(self, name):
        return {"UncachedCompile": self.begun, "PersistentCacheHit": self.loaded}.get(name)

    def _xla_counter_names(self):
        return []

    def _xla_metric_data(self, name):
        return (self.ended, self.spent_ns, []) if name == "CompileTime" and self.ended else None


@pytest.mark.parametrize(
    ("begun", "ended", "loaded", "under_way"),
    [
        (1, 0, 0, True),
        (1, 1, 0, False),
        (5, 4, 0, True),
        # A program from the cache is not compiled.
        (5, 3, 2, False),
        # What is compiled elsewhere counts as ended only.
        (5, 9, 0, False),
    ],
)
def test_a_compile_that_began_and_has_not_ended_is_under_way(begun, ended, loaded, under_way):
    extension = Extension()
    telemetry = Telemetry(extension)
    extension.begun, extension.ended, extension.loaded = begun, ended, loaded
    assert telemetry.compiles_under_way() == under_way


def test_what_ends_elsewhere_hides_no_later_compile():
    extension = Extension(begun=1, ended=4)
    telemetry = Telemetry(extension)
    extension.begun = 2
    assert telemetry.compiles_under_way()
    extension.ended = 5
    assert not telemetry.compiles_under_way()


@pytest.mark.parametrize("under_way", [True, False])
def test_the_pacer_asks_for_it_where_no_framework_tells(monkeypatch, under_way):
    monkeypatch.setattr("tpuprof.capture.by_clock.STATE", SimpleNamespace(framework=None))
    followed = SimpleNamespace(compiles_under_way=lambda: under_way)
    assert ByClock(followed, lambda: None).compiling() == under_way


def compiled(extension, graphs, seconds):
    extension.begun += graphs
    extension.ended += graphs
    extension.spent_ns += seconds * 1e9


def test_compiles_that_no_graph_cut_makes_are_noted_without_a_line():
    """L-BFGS compiled 70 graphs in 20 s before its capture, most of them in reads: 10 graphs in 5.58 s were noted."""
    extension = Extension()
    telemetry = Telemetry(extension)
    compiled(extension, 3, 1.5)
    telemetry.before_cut()
    compiled(extension, 1, 0.5)
    telemetry.after_cut()
    compiled(extension, 2, 0.25)
    (first, cut, last) = telemetry.end_step(0, 0, 1, captured=False).compiles
    assert [(each.graphs, each.frames) for each in (first, last)] == [(3, []), (2, [])]
    assert (first.seconds, last.seconds) == (pytest.approx(1.5), pytest.approx(0.25))
    assert cut.graphs == 1 and cut.frames
    assert telemetry.end_step(1, 0, 1, captured=False).compiles == []


def test_a_cut_whose_begin_nobody_saw_counts_nothing_twice():
    extension = Extension()
    telemetry = Telemetry(extension)
    compiled(extension, 3, 1.5)
    assert [each.graphs for each in telemetry.end_step(0, 0, 1, captured=False).compiles] == [3]
    compiled(extension, 1, 0.5)
    telemetry.after_cut()
    assert [each.graphs for each in telemetry.end_step(1, 0, 1, captured=False).compiles] == [1]


def test_a_framework_without_graph_cuts_notes_its_compiles_itself():
    extension = Extension()
    noted = [(1, 0.5, ["f (train.py:1)"])]
    extension.drain_compiles = lambda: [noted.pop()] if noted else []
    telemetry = Telemetry(extension)
    compiled(extension, 1, 0.5)
    (only,) = telemetry.end_step(0, 0, 1, captured=False).compiles
    assert only.frames == ["f (train.py:1)"]
