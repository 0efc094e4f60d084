"""A thread that looks at another one sees where its time goes, and leaves Python's switch interval as it was."""

import os
import sys
import threading
import time

import numpy as np
import pytest

from tpuprof.instrument import plain_wait

native = pytest.importorskip("tpuprof.instrument._prompt_wait", reason="the native module is not built")
# Samples taken, and how long a program may run for them (s).
SAMPLES, AT_MOST = 60, 20.0


def keeps_the_lock():
    for number in range(40_000):
        if number % 7:
            pass


def functions_seen(work):
    """The function of each sample of this thread, which repeats the work meanwhile."""
    wait, seen, main = native.Wait(), [], threading.get_ident()

    def look():
        native.wake_at_once()
        while not wait.wait(0.003):
            frame = sys._current_frames()[main]
            seen.append(frame.f_code.co_name)
            del frame

    thread = threading.Thread(target=look)
    thread.start()
    end = time.monotonic() + AT_MOST
    while len(seen) < SAMPLES and time.monotonic() < end:
        work()
    wait.halt()
    thread.join()
    native.put_back()
    return seen


def test_python_code_is_seen_and_not_the_call_after_it():
    """With Python's own wait, all samples show the call of NumPy: it lets go of the lock."""
    generator = np.random.default_rng()

    def works():
        keeps_the_lock()
        generator.random(5_000)

    seen = functions_seen(works)
    assert len(seen) >= SAMPLES
    assert seen.count("keeps_the_lock") > len(seen) / 2


@pytest.fixture
def interval():
    before = sys.getswitchinterval()
    yield before
    sys.setswitchinterval(before)


def test_the_switch_interval_is_as_before(interval):
    functions_seen(keeps_the_lock)
    assert sys.getswitchinterval() == interval


def test_an_interval_that_the_program_sets_stays(interval):
    changed = []

    def works():
        if not changed:
            sys.setswitchinterval(0.004)
            changed.append(True)
        keeps_the_lock()

    functions_seen(works)
    assert sys.getswitchinterval() == pytest.approx(0.004)


def test_the_interval_is_put_back_before_the_next_wait(interval):
    wait = native.Wait()
    assert not wait.wait(0.001)
    assert sys.getswitchinterval() < interval
    wait.halt()
    assert wait.wait(AT_MOST)
    assert sys.getswitchinterval() == interval


def test_a_look_says_what_python_says():
    wait, at = native.Wait(), sys._getframe()
    before, cpu = time.perf_counter_ns(), time.thread_time_ns()
    now, ops, used, _, _, places = wait.look(threading.get_ident(), 64, -1, lambda: 7)
    assert before <= now <= time.perf_counter_ns()
    assert cpu <= used <= time.thread_time_ns()
    assert (ops, places[0][0], len(wait.look(threading.get_ident(), 2, -1, None)[-1])) == (7, at.f_code, 2)


def test_a_thread_that_has_ended_is_not_looked_at():
    thread = threading.Thread(target=keeps_the_lock)
    thread.start()
    thread.join()
    assert native.Wait().look(thread.ident, 64, -1, None) is None


def short_interval():
    """The interval of a sample that asks for the lock, as a program that reads all the time sees it."""
    end = time.monotonic() + AT_MOST
    while time.monotonic() < end:
        read = sys.getswitchinterval()
        if read < 0.0001:
            return read
    raise AssertionError("no sample asked for the lock")


@pytest.mark.parametrize("own", [0.005, 0.006, 0.007, 0.008])
def test_a_program_that_sets_what_it_read_of_ours_gets_what_it_would_have_read(interval, own):
    """As a context manager does that sets an interval of its own for some lines."""
    states = []

    def works():
        if not states:
            sys.setswitchinterval(own)
            states.append(short_interval())
            sys.setswitchinterval(0.001)
            time.sleep(0.02)
            assert sys.getswitchinterval() == pytest.approx(0.001)
            sys.setswitchinterval(states[0])
        keeps_the_lock()

    functions_seen(works)
    assert sys.getswitchinterval() == pytest.approx(own)


@pytest.mark.parametrize("own", [0.00001, 0.00004])
def test_an_interval_of_the_program_that_is_short_enough_stays(interval, own):
    functions_seen(keeps_the_lock)
    sys.setswitchinterval(own)
    functions_seen(keeps_the_lock)
    assert sys.getswitchinterval() == pytest.approx(own)


def test_more_intervals_than_are_numbered(interval):
    functions_seen(keeps_the_lock)
    wait = native.Wait()
    for each in range(1, 20):
        sys.setswitchinterval(each / 1000)
        assert not wait.wait(0.001)
        native.put_back()
        assert sys.getswitchinterval() == pytest.approx(each / 1000)


def test_a_child_process_gets_the_usual_interval(interval):
    """It may be forked while a sample asks for the lock."""
    wait = native.Wait()
    assert not wait.wait(0.001)
    seen = []
    functions_seen(lambda: seen or seen.append(short_interval()))
    read, write = os.pipe()
    sys.setswitchinterval(seen[0])
    pid = os.fork()
    if not pid:
        native.put_back()
        os.write(write, repr(sys.getswitchinterval()).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    native.put_back()
    assert float(os.read(read, 100)) == interval
    os.close(read)
    os.close(write)


@pytest.mark.parametrize("kind", [native.Wait, plain_wait.Wait])
def test_a_wait_ends_when_it_is_halted(kind):
    wait = kind()
    assert not wait.wait(0.001)
    wait.halt()
    assert wait.wait(AT_MOST)
    native.put_back()


def test_a_thread_keeps_its_priority():
    found = []

    def look():
        for change in (lambda: None, native.wake_at_once):
            change()
            found.append(
                (os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), os.sched_getscheduler(0))
            )

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found[0] == found[1]
