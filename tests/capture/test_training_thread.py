"""Which thread is sampled where no step tells: not one that waits for the end of those that train."""

import threading
import time
from types import SimpleNamespace

import pytest

from tpuprof.capture import training_thread as module
from tpuprof.capture.training_thread import training_thread
from tpuprof.instrument.state import STATE


@pytest.fixture
def ends():
    """Ends the threads of a test."""
    event = threading.Event()
    yield event
    event.set()


def started(run, *arguments):
    thread = threading.Thread(target=run, args=arguments, daemon=True)
    thread.start()
    return thread


def works(ends):
    while not ends.is_set():
        sum(range(20_000))


@pytest.fixture
def compiled_in(monkeypatch):
    def says(thread):
        monkeypatch.setattr(STATE, "framework", SimpleNamespace(compiled_in=thread))

    return says


def test_the_thread_that_compiled_is_followed_and_else_the_main_one(ends, compiled_in):
    worker = started(works, ends)
    compiled_in(worker.ident)
    assert training_thread() == worker.ident
    compiled_in(None)
    assert training_thread() == threading.main_thread().ident
    ends.set()
    worker.join()
    compiled_in(worker.ident)
    assert training_thread() == threading.main_thread().ident


def asked_while_joined(ends, compiled_in, *others):
    """The answer of a thread of ours, while the one that compiled joins these."""
    joins = started(lambda: [each.join() for each in others])
    compiled_in(joins.ident)
    time.sleep(0.05)
    found = []
    asks = started(lambda: found.append(training_thread()))
    asks.join()
    return found[0], joins.ident


def test_one_that_joins_others_does_not_train(ends, compiled_in):
    """A server that compiles first, and answers in a thread: all the time was "waits for a thread at t.join()"."""
    idle = started(ends.wait)
    busy = started(works, ends)
    found, _ = asked_while_joined(ends, compiled_in, idle, busy)
    assert found == busy.ident


def test_a_thread_inside_of_the_framework_comes_before_one_that_is_busy(ends, compiled_in, monkeypatch):
    monkeypatch.setattr(module, "is_framework", lambda path: path == "inside_jax.py")
    busy = started(works, ends)
    scope = {}
    exec(compile("def reads(ends):\n    ends.wait()\n", "inside_jax.py", "exec"), scope)
    trains = started(scope["reads"], ends)
    found, _ = asked_while_joined(ends, compiled_in, busy, trains)
    assert found == trains.ident


def test_threads_that_only_wait_do_not_train(ends, compiled_in):
    """Orbax's manager joins the threads of a save: a thread that waited for work was followed, and no line known."""
    found, joins = asked_while_joined(ends, compiled_in, started(ends.wait), started(ends.wait))
    assert found == joins


def test_one_that_goes_on_after_a_join_trains(ends, compiled_in):
    saves = started(lambda: time.sleep(module.LOOKS * module.BETWEEN_SECONDS / 2))
    busy = started(works, ends)

    def trains():
        saves.join()
        works(ends)

    main = started(trains)
    compiled_in(main.ident)
    found = []
    started(lambda: found.append(training_thread())).join()
    assert found == [main.ident]
    assert busy.is_alive()


def test_where_there_is_no_other_thread_it_stays(ends, compiled_in, monkeypatch):
    monkeypatch.setattr(module, "cpu_of_threads", dict)
    found, joins = asked_while_joined(ends, compiled_in, started(ends.wait))
    assert found == joins
