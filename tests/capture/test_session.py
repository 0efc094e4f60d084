"""A session ends before the framework does, whenever the framework registered its own end."""

import atexit
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tpuprof.capture import crumbs, session
from tpuprof.capture.session import Session
from tpuprof.instrument.frameworks import torch_tpu
from tpuprof.instrument.frameworks.torch_tpu import TorchTpu


class Recorder:
    """Notes that it was closed; it still reports while that happens, as a recording that ends does."""

    def __init__(self, order, report):
        self._order, self._report = order, report

    def close(self):
        self._order.append("ours")
        self._report("captured 2 steps")


@pytest.fixture
def ends(monkeypatch):
    """What runs at the end of a program, last registered first, as Python does it."""
    registered = []
    monkeypatch.setattr(atexit, "register", registered.append)
    monkeypatch.setattr(atexit, "unregister", lambda each: each in registered and registered.remove(each))
    monkeypatch.setattr(session, "say", lambda _text: None)
    monkeypatch.setattr(os, "register_at_fork", lambda **_: None)
    return registered


def opened(tmp_path, order, monkeypatch):
    made = Session(str(tmp_path))
    monkeypatch.setattr(made, "_open_recorder", lambda: Recorder(order, made._reported))
    made.open()
    return made


@pytest.mark.parametrize("happens", ["step", "recording", "recording that nothing is said of"])
def test_ours_comes_first_although_the_runtime_began_later(tmp_path, monkeypatch, ends, happens):
    """TorchTPU's counters end the process by SIGABRT where they are read after its runtime was shut down."""
    order = []
    made = opened(tmp_path, order, monkeypatch)
    ends.append(lambda: order.append("the runtime"))
    if happens == "step":
        made._came_to(crumbs.STEPS, 1)
    elif "nothing" in happens:
        made._came_to(crumbs.RECORDING, 1)
    else:
        made._reported("recording by the clock")
    while ends:
        ends.pop()()
    assert order == ["ours", "the runtime"]


def test_only_one_end_is_registered(tmp_path, monkeypatch, ends):
    made = opened(tmp_path, [], monkeypatch)
    for _ in range(3):
        made._reported("captured 2 steps")
    assert len(ends) == 1


def test_counters_of_torch_tpu_are_not_read_once_its_runtime_ends(monkeypatch, ends):
    """A thread may ask at any time: of a watch, or of samples."""
    alive = [True]

    def misses():
        assert alive, "it would end the process by SIGABRT"
        return 7

    cache = SimpleNamespace(_is_initialized=lambda: True, _get_cache_misses=misses)
    monkeypatch.setitem(sys.modules, torch_tpu._CACHE, cache)
    framework = TorchTpu()
    ends.append(alive.clear)
    assert framework.compiles() == framework.compiles() == 7
    assert len(ends) == 2
    while ends:
        ends.pop()()
        assert framework.compiles() == 7


def test_without_a_runtime_torch_tpu_counts_nothing(monkeypatch, ends):
    monkeypatch.setitem(sys.modules, torch_tpu._CACHE, SimpleNamespace(_is_initialized=lambda: False))
    assert TorchTpu().compiles() == 0
    assert not ends


TWICE = """
import os, signal, time
from tpuprof.capture.terminate import close_on_terminate

def close():
    print("closing", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    print("closed", flush=True)

close_on_terminate(close)
time.sleep(0.1)  # while a thread starts, CPython may run a handler some instructions late
os.kill(os.getpid(), signal.SIGTERM)
print("went on", flush=True)
"""


def test_a_second_sigterm_lets_the_first_keep_what_was_captured():
    """`timeout` and systemd send it to a whole group, and the parent hands it on as well."""
    done = subprocess.run(
        [sys.executable, "-c", TWICE], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout.split("\n"), done.returncode) == (["closing", "closed", ""], -signal.SIGTERM)
