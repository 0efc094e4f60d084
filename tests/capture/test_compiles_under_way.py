"""Whether torch_xla compiles right now: it counts a compile as that begins, and again as it ends."""

from types import SimpleNamespace

import pytest

from tpuprof.capture.by_clock import ByClock
from tpuprof.capture.telemetry import Telemetry


class Extension:
    def __init__(self, begun=0, ended=0, loaded=0):
        self.begun, self.ended, self.loaded = begun, ended, loaded

    def _xla_counter_value(self, name):
        return {"UncachedCompile": self.begun, "PersistentCacheHit": self.loaded}.get(name)

    def _xla_counter_names(self):
        return []

    def _xla_metric_data(self, name):
        return (self.ended, 1.0, []) if name == "CompileTime" and self.ended else None


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
