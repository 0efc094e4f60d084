"""Threads of ours are none of the program's: not listed, not traced, not waited for."""

import threading

from tpuprof.instrument.hidden_thread import HiddenThread


def test_the_program_does_not_see_it():
    begun, end, traced = threading.Event(), threading.Event(), []

    def work():
        # Libraries ask for it, logging for one.
        threading.current_thread()
        begun.set()
        end.wait()

    before = threading.enumerate()
    threading.settrace(lambda *_: traced.append(1))
    try:
        thread = HiddenThread(work)
        thread.start()
        begun.wait()
    finally:
        threading.settrace(None)
    assert not thread.is_current
    end.set()
    thread.join(10)
    assert threading.enumerate() == before
    assert traced == []


def test_it_knows_itself():
    found = []
    thread = HiddenThread(lambda: found.append(thread.is_current))
    thread.start()
    thread.join(10)
    assert found == [True]
