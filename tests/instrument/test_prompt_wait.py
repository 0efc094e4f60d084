"""A thread that looks at another one sees where its time goes, and leaves Python's switch interval as it was."""

import os
import sys
import threading
import time
from types import CodeType

import numpy as np
import pytest

from tpuprof.instrument import plain_wait
from tpuprof.instrument.known_codes import KnownCodes
from tpuprof.instrument.run_queue import RunQueue
from tpuprof.instrument.source_lines import line_of

native = pytest.importorskip("tpuprof.instrument._prompt_wait", reason="the native module is not built")
# Samples taken, and how long a program may run for them (s).
SAMPLES, AT_MOST = 60, 20.0


def keeps_the_lock():
    for number in range(40_000):
        if number % 7:
            pass


def keeps_it_in_one_operator(number):
    square = number * number
    return len([square])


def samples_of(work, samples=SAMPLES):
    """(places, whether exact) of each sample of this thread, which repeats the work meanwhile."""
    wait, seen, main, known = native.Wait(), [], threading.get_ident(), KnownCodes()

    def look():
        native.wake_at_once()
        while not wait.wait(0.003):
            *_, places, exact = wait.look(main, 64, -1, None, known)
            for code, _ in places:
                known.learn(code)
            seen.append((places, exact))

    thread = threading.Thread(target=look)
    thread.start()
    end = time.monotonic() + AT_MOST
    while len(seen) < samples and time.monotonic() < end:
        work()
    wait.halt()
    thread.join()
    native.put_back()
    return seen


def functions_seen(work):
    """The innermost function of each of those."""
    return [places[0][0].co_name for places, _ in samples_of(work)]


def test_python_code_is_seen_and_not_the_call_after_it():
    """With Python's own wait, all samples show the call of NumPy: it lets go of the lock."""
    generator = np.random.default_rng()

    def works():
        keeps_the_lock()
        generator.random(5_000)

    seen = functions_seen(works)
    assert len(seen) >= SAMPLES
    assert seen.count("keeps_the_lock") > len(seen) / 2


def test_a_loop_that_lets_go_of_the_lock_all_the_time_is_seen():
    """Who asks for the lock gets it in one of those calls; the stack is read before."""
    generator = np.random.default_rng()

    def works():
        for number in range(1_000):
            if number % 7:
                pass
        calls(generator)

    def calls(generator):
        generator.random(10)

    seen = functions_seen(works)
    assert len(seen) >= SAMPLES
    assert seen.count("works") > 2 * len(seen) / 3


def test_an_operator_that_calls_nothing_is_seen_where_it_is():
    """Python lets go of the lock after it, at the next call or jump."""
    number = 3**100_000

    def works():
        keeps_it_in_one_operator(number)

    operator = keeps_it_in_one_operator.__code__.co_firstlineno + 1
    lines = [
        line_of(*places[0])
        for places, _ in samples_of(works)
        if places[0][0] is keeps_it_in_one_operator.__code__
    ]
    assert len(lines) > SAMPLES / 2
    assert lines.count(operator) > 2 * len(lines) / 3


def test_a_stack_that_was_read_is_the_one_that_python_has():
    """Innermost first and to its end, where the thread waits."""

    def waits():
        time.sleep(0.05)

    seen = samples_of(waits, samples=20)
    stacks = {tuple(code.co_name for code, _ in places) for places, exact in seen if exact}
    here = []
    frame = sys._getframe()
    while frame is not None:
        here.append(frame.f_code.co_name)
        frame = frame.f_back
    assert ("waits", "samples_of", *here)[:64] in stacks


def test_whether_a_thread_sleeps_is_known_with_its_stack():
    wait, main, states = native.Wait(), threading.get_ident(), {}
    queue, known = RunQueue(main), KnownCodes()

    def look():
        native.wake_at_once()
        while not wait.wait(0.003, True, queue.state):
            *_, places, state = wait.look(main, 64, -1, None, known)
            for code, _ in places:
                known.learn(code)
            states.setdefault(places[0][0].co_name, []).append(state)

    def sleeps():
        time.sleep(0.02)

    thread = threading.Thread(target=look)
    thread.start()
    end = time.monotonic() + AT_MOST
    while (
        min(len(states.get(name, [])) for name in ("keeps_the_lock", "sleeps")) < 30
        and time.monotonic() < end
    ):
        sleeps()
        for _ in range(10):
            keeps_the_lock()
    wait.halt()
    thread.join()
    queue.close()
    assert states["sleeps"].count("S") > 0.8 * len(states["sleeps"])
    assert states["keeps_the_lock"].count("R") > 0.8 * len(states["keeps_the_lock"])


def test_what_has_ended_since_is_left_out_where_its_code_is_unknown():
    """No address is taken for a code object that nobody keeps alive."""
    wait, main, seen = native.Wait(), threading.get_ident(), []

    def look():
        while not wait.wait(0.001):
            seen.append(wait.look(main, 64, -1, None, {}))

    thread = threading.Thread(target=look)
    thread.start()
    for number in range(3_000):
        exec(f"def made_{number}(): return [each for each in range(50)]\nmade_{number}()", {})
    wait.halt()
    thread.join()
    assert seen
    assert all(isinstance(code, CodeType) for each in seen for code, _ in each[5])


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


def test_the_interval_is_put_back_as_soon_as_the_lock_is_there(interval):
    wait = native.Wait()
    assert not wait.wait(0.001)
    assert sys.getswitchinterval() == interval
    wait.halt()
    assert wait.wait(AT_MOST)
    assert sys.getswitchinterval() == interval


@pytest.mark.parametrize("kind", [native.Wait, plain_wait.Wait])
def test_a_look_says_what_python_says(kind):
    wait, at, here = kind(), sys._getframe(), threading.get_ident()
    before, cpu = time.perf_counter_ns(), time.thread_time_ns()
    now, ops, used, _, _, places, exact = wait.look(here, 64, -1, lambda: 7, {})
    assert before <= now <= time.perf_counter_ns()
    assert cpu <= used <= time.thread_time_ns()
    assert (ops, places[0][0], exact) == (7, at.f_code, "")
    assert len(wait.look(here, 2, -1, None, {})[5]) == 2


@pytest.mark.parametrize("kind", [native.Wait, plain_wait.Wait])
def test_a_thread_that_has_ended_is_not_looked_at(kind):
    thread = threading.Thread(target=keeps_the_lock)
    thread.start()
    thread.join()
    assert kind().look(thread.ident, 64, -1, None, {}) is None


@pytest.mark.parametrize("kind", [native.Wait, plain_wait.Wait])
def test_time_waited_for_a_cpu_is_the_schedulers(kind):
    queue = RunQueue(threading.get_ident())
    try:
        waited = kind().look(threading.get_ident(), 1, queue.file, None, {})[3]
        with open(f"/proc/self/task/{threading.get_native_id()}/schedstat") as file:
            after = int(file.read().split()[1])
    finally:
        queue.close()
    assert 0 < waited <= after


def short_interval():
    """The interval of a sample that asks for the lock, as a program that reads all the time sees it."""
    end = time.monotonic() + AT_MOST
    while time.monotonic() < end:
        read = sys.getswitchinterval()
        if read < 0.0001:
            return read
    raise AssertionError("no sample asked for the lock")


def interval_between_samples():
    """The interval while no sample asks for the lock."""
    end = time.monotonic() + AT_MOST
    while time.monotonic() < end:
        read = sys.getswitchinterval()
        if read > 0.0001:
            return read
    raise AssertionError("a sample asks for the lock all the time")


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
            assert interval_between_samples() == pytest.approx(0.001)
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
