"""A session ends before the framework does, whenever the framework registered its own end."""

import atexit
import os

import pytest

from tpuprof.capture import crumbs, session
from tpuprof.capture.session import Session


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


@pytest.mark.parametrize("happens", ["step", "recording"])
def test_ours_comes_first_although_the_runtime_began_later(tmp_path, monkeypatch, ends, happens):
    """TorchTPU's counters end the process by SIGABRT where they are read after its runtime was shut down."""
    order = []
    made = opened(tmp_path, order, monkeypatch)
    ends.append(lambda: order.append("the runtime"))
    if happens == "step":
        made._came_to(crumbs.STEPS, 1)
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
