"""Which line of the program's calls a function of a library: noted call by call, where the user asked for lines."""

import inspect
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tpuprof.instrument import library_calls
from tpuprof.instrument.library_calls import LibraryCalls


@pytest.fixture
def calls(monkeypatch):
    monkeypatch.setenv("TORCH_TRACE", "/tmp/trace")
    before = sys.getprofile()
    sys.setprofile(None)
    made = LibraryCalls()
    yield made
    sys.setprofile(before)


def rows_of(calls, function):
    """Source lines of the rows that are of a library's function."""
    lines, first = inspect.getsourcelines(inspect.unwrap(function))
    return [
        row["source"].rpartition(":")[2]
        for row in calls.rows()
        if Path(row["file"]).name == Path(inspect.getfile(inspect.unwrap(function))).name
        and first <= row["first"] < first + len(lines)
    ]


def test_a_function_that_one_line_calls_has_that_line(calls):
    calls.start()
    for _ in range(3):
        np.linalg.norm([1.0, 2.0])
    calls.stop()
    line = inspect.currentframe().f_lineno - 2
    assert rows_of(calls, np.linalg.norm) == [str(line)]


def test_of_two_lines_none_is_named(calls):
    calls.start()
    np.linalg.norm([1.0])
    np.linalg.norm([2.0])
    calls.stop()
    assert rows_of(calls, np.linalg.norm) == []


def test_nothing_is_noted_unless_the_user_asked_for_lines(monkeypatch):
    monkeypatch.delenv("TORCH_TRACE", raising=False)
    calls, before = LibraryCalls(), sys.getprofile()
    calls.start()
    assert sys.getprofile() is before
    assert calls.rows() == []


def test_a_program_that_watches_its_own_calls_keeps_doing_so(calls):
    def own(*_):
        return None

    sys.setprofile(own)
    calls.start()
    calls.stop()
    assert sys.getprofile() is own


def test_only_one_step_is_watched(calls):
    calls.start()
    calls.stop()
    calls.start()
    assert sys.getprofile() is None


def test_it_ends_after_many_calls(calls, monkeypatch):
    monkeypatch.setattr(library_calls, "MOST_CALLS", 2)
    calls = LibraryCalls()
    calls.start()
    for _ in range(5):
        np.linalg.norm([1.0])
    assert sys.getprofile() is None


def test_another_thread_ends_it_with_the_next_call(calls):
    calls.start()
    clock = threading.Thread(target=calls.stop)
    clock.start()
    clock.join()
    np.linalg.norm([1.0])
    assert sys.getprofile() is None
    assert calls.rows() == []
