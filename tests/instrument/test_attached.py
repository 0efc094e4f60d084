"""Host events are added while somebody else's profile of this program is made, and at no other time."""

import sys
from types import SimpleNamespace

import pytest

from tpuprof.instrument import attached, sync_guard
from tpuprof.instrument.attached import Attached
from tpuprof.instrument.state import STATE


class Event:
    opened = ()
    on = False

    def __init__(self, name, **stats):
        self.name = name
        self.stats = stats

    def __enter__(self):
        Event.opened.append((self.name, self.stats))

    def __exit__(self, *_):
        return None

    @staticmethod
    def is_enabled(level):
        return Event.on and level == 1


@pytest.fixture
def cut(monkeypatch):
    """A graph cut of a made-up extension; what is installed while the profiler records is counted."""
    extension = SimpleNamespace(
        _xla_step_marker=lambda: None,
        _xla_counter_value=lambda _: 0,
        profiler=SimpleNamespace(TraceMe=Event, scope_pusher=None),
    )
    monkeypatch.setitem(sys.modules, "torch_xla", SimpleNamespace(_XLAC=extension))
    monkeypatch.setattr(attached.host_events, "install", lambda: changes.append("on"))
    monkeypatch.setattr(attached.host_events, "remove", lambda: changes.append("off"))
    monkeypatch.setattr(attached.device_calls, "install", lambda: changes.append("calls on"))
    monkeypatch.setattr(attached.device_calls, "remove", lambda: changes.append("calls off"))
    monkeypatch.setattr(Event, "opened", [])
    monkeypatch.setattr(Event, "on", False)
    changes = []
    follower = Attached(extension)
    assert follower.install()
    yield SimpleNamespace(run=extension._xla_step_marker, changes=changes)
    follower.remove()
    sync_guard.remove()


def cuts():
    return [stats["call"] for name, stats in Event.opened if name == "tpuprof.graph_cut"]


def test_events_are_there_while_the_profiler_records(cut):
    cut.run()
    assert (cut.changes, cuts()) == ([], [])
    Event.on = True
    cut.run()
    cut.run()
    assert (cut.changes, cuts()) == (["on", "calls on"], ["sync", "sync"])
    Event.on = False
    cut.run()
    assert (cut.changes, len(cuts())) == (["on", "calls on", "calls off", "off"], 2)
    assert all(stats["wait"] == 0 for name, stats in Event.opened if name == "tpuprof.graph_cut")


def test_a_capture_of_this_process_adds_them_itself(cut, monkeypatch):
    monkeypatch.setattr(STATE, "listeners", [print])
    Event.on = True
    cut.run()
    assert cut.changes == []


def test_a_torch_xla_that_does_not_tell_is_left_alone():
    extension = SimpleNamespace(profiler=SimpleNamespace(TraceMe=object))
    assert not Attached(extension).install()


def test_a_guard_that_the_program_has_wrapped_still_cuts(monkeypatch):
    """Another profiler stands around the graph cut as well: it stays there, and every cut runs once."""
    ran, seen = [], []
    extension = SimpleNamespace(_xla_step_marker=lambda *_, **__: ran.append("cut") or "result")
    monkeypatch.setitem(sys.modules, "torch_xla", SimpleNamespace(_XLAC=extension))

    def before():
        seen.append("before")

    assert sync_guard.install()
    sync_guard.observe(before)
    ours = extension._xla_step_marker

    def theirs(*args, **kwargs):
        return ours(*args, **kwargs)

    extension._xla_step_marker = theirs
    assert extension._xla_step_marker() == "result"
    assert (ran, seen) == (["cut"], ["before"])
    sync_guard.stop_observing(before)
    assert extension._xla_step_marker is theirs
    assert extension._xla_step_marker() == "result"
    assert (ran, seen) == (["cut"] * 2, ["before"])
    assert sync_guard.install()
    sync_guard.observe(before)
    assert extension._xla_step_marker() == "result"
    sync_guard.stop_observing(before)
    assert (ran, seen) == (["cut"] * 3, ["before"] * 2)
    assert extension._xla_step_marker is theirs
