"""What threads of XLA's CPU client do beside a callback: parts of ops begin and end in events of their own."""

import numpy as np
import pytest

from tests.builders import TraceBuilder
from tpuprof.decode.load import load
from tpuprof.model.device.pool_threads import BEGINS, ENDS, at_work, working_beside
from tpuprof.model.intervals import EMPTY, union
from tpuprof.model.timeline import build_host
from tpuprof.units import PS_PER_MS

PS_PER_US = PS_PER_MS // 1000


def tracks(tmp_path, *threads):
    """Threads with begins (`b`) and ends (`e`) at these times (us)."""
    trace = TraceBuilder()
    for number, events in enumerate(threads):
        line = trace.host().line(f"tf_XLAEigen/{number}")
        line.event("first", 0, 0)
        for kind, at in events:
            line.event(BEGINS if kind == "b" else ENDS, at, 0)
        line.event("last", 100, 0)
    return build_host(load(trace.write(tmp_path / "host.xplane.pb")), "host").threads


def us(spans):
    return [(int(a) // PS_PER_US, int(b) // PS_PER_US) for a, b in zip(spans.start, spans.end, strict=True)]


def at(start, end):
    return union(np.array([start * PS_PER_US]), np.array([end * PS_PER_US]))


@pytest.mark.parametrize(
    ("events", "works"),
    [
        ([("b", 10), ("e", 20), ("b", 50), ("e", 60)], [(10, 20), (50, 60)]),
        # One part in another: the first end does not end both.
        ([("b", 10), ("b", 20), ("e", 30), ("e", 40), ("b", 70), ("e", 80)], [(10, 40), (70, 80)]),
        # It began before the profiler, and goes on after it.
        ([("e", 20), ("b", 90)], [(0, 20), (90, 100)]),
        ([], []),
    ],
)
def test_a_thread_rests_from_an_end_to_the_next_begin(tmp_path, events, works):
    (track,) = tracks(tmp_path, events)
    assert us(at_work(track)) == works


def test_the_thread_of_a_callback_does_not_work_beside_it(tmp_path):
    calls, pool = tracks(tmp_path, [("b", 10), ("e", 90)], [("b", 10), ("e", 20), ("b", 70), ("e", 75)])
    found = working_beside([(calls, at(15, 80), at(15, 80)), (pool, EMPTY, EMPTY)])
    assert us(found) == [(10, 20), (70, 75), (80, 90)]


def test_an_op_outside_the_pool_works_too(tmp_path):
    calls, pool = tracks(tmp_path, [("b", 10), ("e", 90)], [])
    assert us(working_beside([(calls, EMPTY, at(10, 90)), (pool, at(30, 40), EMPTY)])) == [(30, 40)]


def test_without_such_events_nothing_is_known(tmp_path):
    (track,) = tracks(tmp_path, [])
    assert working_beside([(track, at(10, 20), EMPTY)]) is None
