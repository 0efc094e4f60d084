"""Work on several threads comes back in order, and leaves cores to those that work beside it."""

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


def test_a_program_that_ends_starts_no_thread(monkeypatch):
    """Python refuses them once its own threads are to end; a capture is written even then."""

    def refused(*_, **__):
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(parallel, "threads", lambda: 2)
    monkeypatch.setattr("concurrent.futures.ThreadPoolExecutor.submit", refused)
    assert parallel.in_threads(lambda number: number + 1, [1, 2]) == [2, 3]
    assert parallel.begin(lambda: 7)() == 7


def test_a_program_that_ends_cannot_import_what_makes_threads(monkeypatch):
    """Its first import registers what Python is to do at its end, and fails once that has begun."""

    class Late:
        def find_spec(self, name, *_):
            if name == "concurrent.futures":
                raise RuntimeError("can't register atexit after shutdown")

    monkeypatch.setattr(parallel, "threads", lambda: 2)
    for name in [each for each in sys.modules if each.startswith("concurrent.futures")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Late(), *sys.meta_path])
    assert parallel.in_threads(lambda number: number + 1, [1, 2]) == [2, 3]
    assert parallel.begin(lambda: 7)() == 7


@pytest.mark.parametrize("cores", [1, 2])
def test_what_was_begun_gives_its_result_or_its_error(monkeypatch, cores):
    monkeypatch.setattr(parallel, "threads", lambda: cores)
    assert parallel.begin(lambda: 7)() == 7
    broken = parallel.begin(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        broken()
