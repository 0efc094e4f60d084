"""Where the training thread is after a recording by the clock."""

import sys
import threading
import time
from types import SimpleNamespace

import pytest

from tpuprof.capture import later_looks
from tpuprof.capture.later_looks import MAX_STACKS, MAX_STRETCHES, WAITED_NS, LaterLooks
from tpuprof.own_events import LOOK_COMPILES, LOOK_WORKS

ME = threading.get_ident()


def frame(name, path="/u/train.py", line=1, back=None):
    return SimpleNamespace(f_code=SimpleNamespace(co_name=name, co_filename=path), f_lineno=line, f_back=back)


class Thread:
    """A thread that is looked at: `at` sets its innermost frame, and how much CPU time it has taken since."""

    def __init__(self):
        self.frame, self.cpu = None, 0
        self.looks = LaterLooks(lambda: ME, lambda: {ME: self.frame}, lambda: {ME: self.cpu})
        self.looks._thread = ME

    def at(self, innermost, ran_ns=10 * WAITED_NS, times=1):
        for _ in range(times):
            self.frame, self.cpu = innermost, self.cpu + ran_ns
            self.looks.look()


def test_looks_in_a_row_are_a_stretch():
    thread = Thread()
    loop = frame("main", line=9)
    thread.at(loop, times=3)
    thread.at(frame("render", line=4, back=loop), times=2)
    thread.at(loop)
    noted = thread.looks.noted()
    assert noted["looks"] == 6
    assert noted["stacks"] == ["main (/u/train.py:9)", "render (/u/train.py:4)\nmain (/u/train.py:9)"]
    assert noted["stretches"] == [[0, 0, 3], [1, 0, 2], [0, 0, 1]]


@pytest.mark.parametrize(("ran", "waits"), [(WAITED_NS, 1), (WAITED_NS + 1, 0)])
def test_a_thread_that_hardly_ran_since_the_last_look_waits_for_the_device(ran, waits):
    thread = Thread()
    loop = frame("main", line=9)
    thread.at(loop)
    thread.at(frame("_value", "/env/lib/python3.11/site-packages/jax/_src/array.py", back=loop), ran)
    assert [row[1] for row in thread.looks.noted()["stretches"]] == [0, waits]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/v/jax/_src/compiler.py", LOOK_COMPILES),
        ("/v/jax/_src/interpreters/mlir.py", LOOK_COMPILES),
        ("/v/jax/_src/interpreters/partial_eval.py", LOOK_WORKS),
    ],
)
def test_a_compile_is_seen_behind_any_number_of_frames(path, kind):
    """Eight frames of a stack are kept, and those of libraries come before JAX's."""
    compiles = frame("compile", path, back=frame("main"))
    thread = Thread()
    thread.at(frame("load", "/v/jax/_src/profiler.py", back=compiles))
    assert [row[1] for row in thread.looks.noted()["stretches"]] == [kind]


def test_a_sleep_is_no_wait_for_the_device():
    thread = Thread()
    thread.at(frame("main"), ran_ns=0)
    assert thread.looks.noted()["stretches"] == [[0, 0, 1]]


def test_what_is_kept_has_bounds():
    thread = Thread()
    for number in range(2 * MAX_STACKS):
        thread.at(frame("main", line=number))
    noted = thread.looks.noted()
    assert len(noted["stacks"]) == MAX_STACKS + 1 and noted["stacks"][-1] == ""
    assert not thread.looks._halt.is_set()
    for number in range(MAX_STRETCHES):
        thread.at(frame("main", line=number % 2))
    assert len(thread.looks.noted()["stretches"]) == MAX_STRETCHES
    assert thread.looks._halt.is_set()


def test_where_nobody_looked_nothing_is_noted():
    assert Thread().looks.noted() == {}


def test_a_thread_of_its_own_looks_until_it_is_stopped(monkeypatch):
    monkeypatch.setattr(later_looks, "LOOK_EVERY_SECONDS", 0.001)
    looks = LaterLooks(lambda: ME)
    looks.start()
    deadline = time.monotonic() + 10
    while not looks.noted() and time.monotonic() < deadline:
        time.sleep(0.01)
    looks.stop()
    (stack, *_) = looks.noted()["stacks"]
    assert f"{sys._getframe().f_code.co_name} ({__file__}" in stack
