"""Work of ours is not seen by a profiler that the program has on."""

import sys
import threading

import pytest

from tpuprof.instrument import untraced as module
from tpuprof.instrument.untraced import untraced


@pytest.fixture
def profiled():
    """The functions that a profiler of this thread sees."""
    seen = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _what: seen.append(frame.f_code.co_name) if event == "call" else None)
    yield seen
    sys.setprofile(before)


def work(threads):
    threads.append(threading.get_ident())


def test_where_nobody_looks_it_is_done_at_once():
    before, threads = (sys.getprofile(), sys.gettrace()), []
    sys.setprofile(None)
    sys.settrace(None)
    try:
        untraced(lambda: work(threads))
    finally:
        sys.setprofile(before[0])
        sys.settrace(before[1])
    assert threads == [threading.get_ident()]


def test_a_profiler_of_the_thread_sees_nothing_of_it(profiled):
    threads = []
    untraced(lambda: work(threads))
    work([])
    sys.setprofile(None)
    assert len(threads) == 1 and threads != [threading.get_ident()]
    assert profiled.count("work") == 1


def test_what_it_raises_is_raised_here(profiled):
    def fails():
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        untraced(fails)


def test_where_no_thread_can_be_started_it_is_done_here(profiled, monkeypatch):
    class Refused:
        def __init__(self, _target):
            pass

        def start(self):
            raise RuntimeError("can't start new thread at interpreter shutdown")

    monkeypatch.setattr(module, "HiddenThread", Refused)
    threads = []
    untraced(lambda: work(threads))
    assert threads == [threading.get_ident()]
