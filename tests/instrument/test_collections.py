"""Garbage collections go onto the timeline, and a Ctrl-C during one is not lost."""

import gc
from functools import partial
from types import SimpleNamespace
from unittest import mock

import pytest

from tests import scripts
from tpuprof.instrument import host_events
from tpuprof.instrument.frameworks.torch_tpu import TorchTpu

native = pytest.mark.skipif(host_events._gc_events is None, reason="the native module is not built")

# One interrupt each time around, wherever it falls: mostly into the collector's callbacks, which is all that runs.
INTERRUPTED = """
import gc, signal
import torch_xla.debug.profiler as xp
from tpuprof.instrument import host_events
from tpuprof.instrument.state import STATE
def interrupt(number, frame):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
STATE.armed = True
xp.start_trace(sys.argv[1])
notes = host_events.install()
lost = 0
for number in range(600):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001 + number * 1e-6)
        for _ in range(20_000):
            gc.collect(0)
        lost += 1
    except KeyboardInterrupt:
        pass
host_events.remove()
xp.stop_trace()
facts(lost=lost, notes=[each for each in notes + STATE.notes if "garbage" in each])
"""


class Event:
    """Stands in for torch_xla's TraceMe, and writes down what is done to it."""

    def __init__(self, log, name):
        self.log = log
        self.log.append((name,))

    def __enter__(self):
        self.log.append(("enter",))

    def __exit__(self, *error):
        self.log.append(("exit", *error))


@native
def test_a_collection_is_one_event_with_its_generation():
    log = []
    events = host_events._gc_events.GcEvents(partial(Event, log))
    events("stop", {"generation": 2})
    events("start", {"generation": 2})
    events("stop", {"generation": 2})
    assert log == [
        ("tpuprof.gc#tpuprof=gc,generation=2#",),
        ("enter",),
        ("exit", None, None, None),
    ]
    assert events.error is None


@native
def test_a_failure_ends_the_events_and_is_kept():
    calls = []

    def broken(name):
        calls.append(name)
        raise RuntimeError("no profiler")

    events = host_events._gc_events.GcEvents(broken)
    for _ in range(2):
        events("start", {})
        events("stop", {})
    assert len(calls) == 1
    assert str(events.error) == "no profiler"


def test_without_compiled_modules_collections_are_left_out_and_noted():
    before, notes = list(gc.callbacks), []
    with (
        mock.patch.object(host_events, "_gc_events", None),
        mock.patch.object(host_events, "xlac", mock.Mock),
    ):
        host_events._watch_collections(notes)
    assert gc.callbacks == before
    assert len(notes) == 1
    assert "garbage collections are missing" in notes[0]


@native
def test_events_that_python_code_makes_leave_collections_out_and_it_is_noted():
    before, notes = list(gc.callbacks), []
    extension = SimpleNamespace(profiler=TorchTpu().profiler)
    with mock.patch.object(host_events, "xlac", lambda: extension):
        host_events._watch_collections(notes)
    assert gc.callbacks == before
    assert "lose a Ctrl-C" in notes[0]


@native
@pytest.mark.torch_xla
@pytest.mark.slow("a torch_xla process of its own")
def test_an_interrupt_during_a_collection_is_not_lost(tmp_path):
    pytest.importorskip("torch_xla")
    script = scripts.write(tmp_path / "interrupted.py", INTERRUPTED)
    found = scripts.facts(scripts.run(script, tmp_path / "trace"))
    assert found == {"lost": 0, "notes": []}
    (profile,) = (tmp_path / "trace").rglob("*.xplane.pb")
    assert b"tpuprof.gc" in profile.read_bytes()
