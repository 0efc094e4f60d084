"""Threads of ours are none of the program's: not listed, not traced, not waited for."""

import threading

from tpuprof.instrument.hidden_thread import HiddenThread, leave_list


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


def test_a_stand_in_leaves_the_list_before_the_thread_waits():
    waits, end = threading.Event(), threading.Event()

    def work():
        threading.current_thread()
        leave_list()
        waits.set()
        end.wait()

    before = threading.enumerate()
    thread = HiddenThread(work)
    thread.start()
    waits.wait()
    assert threading.enumerate() == before
    end.set()
    thread.join(10)


def test_a_thread_of_the_program_stays_on_the_list():
    leave_list()
    assert threading.current_thread() in threading.enumerate()


def test_it_knows_itself():
    found = []
    thread = HiddenThread(lambda: found.append(thread.is_current))
    thread.start()
    thread.join(10)
    assert found == [True]
