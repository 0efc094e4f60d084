"""Work on several threads comes back in order, and leaves cores to those that work beside it."""

import subprocess
import sys
import threading

import pytest

from tpuprof import parallel


@pytest.mark.parametrize(
    ("cores", "beside", "alone"), [(1, 0, True), (2, 1, True), (2, 0, False), (3, 1, False)]
)
def test_who_works(monkeypatch, cores, beside, alone):
    monkeypatch.setattr(parallel, "threads", lambda: cores)
    both = threading.Barrier(2, timeout=10)

    def work(number):
        # Two that wait for each other are two threads.
        if not alone:
            both.wait()
        return number, threading.current_thread() is threading.main_thread()

    assert parallel.in_threads(work, [1, 2], beside=beside) == [(1, alone), (2, alone)]


def test_a_thread_may_do_all_itself():
    own = threading.get_ident()
    with parallel.on_this_thread():
        assert parallel.in_threads(lambda _: threading.get_ident(), [1, 2, 3]) == [own] * 3
        assert parallel.begin(threading.get_ident)() == own
        assert parallel.threads() == 1


def test_where_no_thread_can_be_started_the_work_is_done_all_the_same(monkeypatch):
    def refused(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(parallel, "threads", lambda: 2)
    monkeypatch.setattr(threading.Thread, "start", refused)
    assert parallel.in_threads(lambda number: number + 1, [1, 2]) == [2, 3]
    assert parallel.begin(lambda: 7)() == 7


def test_a_program_that_ends_starts_no_thread():
    """A capture is written even then, when Python has waited for its threads and takes no new ones."""
    program = """
import atexit, threading
from tpuprof import parallel
parallel.threads = lambda: 2
def at_the_end():
    own = threading.get_ident()
    found = parallel.in_threads(lambda number: (number, threading.get_ident() == own), [1, 2])
    print(found, parallel.begin(threading.get_ident)() == own)
atexit.register(at_the_end)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[(1, True), (2, True)] True"


def test_the_first_error_is_raised_and_nothing_is_begun_after_it(monkeypatch):
    monkeypatch.setattr(parallel, "threads", lambda: 2)
    begun = []

    def work(number):
        begun.append(number)
        if number == 3:
            raise ValueError(number)
        return number

    with pytest.raises(ValueError, match="3"):
        parallel.in_threads(work, range(1000))
    assert len(begun) < 1000
    assert parallel.in_threads(work, range(3)) == [0, 1, 2]


@pytest.mark.parametrize("cores", [1, 2])
def test_what_was_begun_gives_its_result_or_its_error(monkeypatch, cores):
    monkeypatch.setattr(parallel, "threads", lambda: cores)
    assert parallel.begin(lambda: 7)() == 7
    broken = parallel.begin(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        broken()
