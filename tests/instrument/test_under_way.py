"""A JAX program that is traced, lowered or compiled is one that is being made; one traced again is not."""

import sys
import threading
from types import SimpleNamespace

import pytest

from tpuprof.instrument.frameworks.jax import Jax
from tpuprof.instrument.frameworks.under_way import (
    COMPILED,
    COUNTS_FROM_SECONDS,
    LOWERED,
    MAX_NAMES,
    TRACED,
    UnderWay,
)
from tpuprof.instrument.state import STATE


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def making(clock):
    return UnderWay(clock)


@pytest.mark.parametrize("event", [TRACED, LOWERED])
def test_what_is_traced_or_lowered_for_a_while_is_under_way_until_it_ends(making, clock, event):
    assert not making.now()
    making.begun(event, "train_step")
    clock.now = 0.99 * COUNTS_FROM_SECONDS
    assert not making.now()
    clock.now = COUNTS_FROM_SECONDS
    assert making.now()
    making.ended(event)
    assert not making.now()


def test_a_compile_is_under_way_at_once_and_each_time(making):
    for _ in range(2):
        making.begun(COMPILED, "jit_train_step")
        assert making.now()
        making.ended(COMPILED)
        assert not making.now()


def test_functions_traced_inside_of_another_end_before_it(making, clock):
    making.begun(TRACED, "train_step")
    for _ in range(3):
        making.begun(TRACED, "norm")
        making.ended(TRACED)
    clock.now = 1.0
    assert making.now()
    making.ended(TRACED)
    # `norm` itself was never traced alone.
    making.begun(TRACED, "norm")
    clock.now = 2.0
    assert making.now()


def test_a_function_that_is_traced_again_is_no_preparation(making, clock):
    """`jax.jit(step).lower(...)` in each step traces it each time."""
    for seconds, expected in ((1.0, True), (2.0, False)):
        making.begun(TRACED, "step")
        clock.now = seconds
        assert making.now() == expected
        making.ended(TRACED)


def test_each_thread_has_its_own(making, clock):
    making.begun(TRACED, "train_step")
    other = threading.Thread(target=making.ended, args=(TRACED,))
    other.start()
    other.join()
    clock.now = 1.0
    assert making.now()


def test_what_ended_unheard_and_other_events_do_no_harm(making, clock):
    making.ended(TRACED)
    making.begun("/jax/another", "")
    assert not making.heard
    making.begun(TRACED, "train_step")
    making.begun(COMPILED, "jit_constant")
    making.ended(TRACED)
    clock.now = 1.0
    assert not making.now()


def test_names_are_kept_in_bounded_memory(making):
    for number in range(MAX_NAMES + 5):
        making.begun(TRACED, str(number))
        making.ended(TRACED)
    assert len(making._made) == MAX_NAMES


def test_what_jax_tells_is_heard(monkeypatch):
    """Also where it tells of nothing that begins: a program that was lowered is then compiled."""
    scalars, durations = [], []
    monitoring = SimpleNamespace(
        register_event_duration_secs_listener=durations.append, register_scalar_listener=scalars.append
    )
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(monitoring=monitoring))
    monkeypatch.setattr(STATE, "notes", [])
    jax = Jax()
    jax.install()
    durations[0](LOWERED, 0.5, fun_name="jit_step")
    assert jax.compiling()
    durations[0](COMPILED, 0.5, fun_name="jit_step")
    assert not jax.compiling()
    scalars[0](COMPILED, 1.0, fun_name="jit_step")
    assert jax.compiling()
    durations[0](COMPILED, 0.5, fun_name="jit_step")
    # A program that is lowered only, to ask about it, is not compiled.
    scalars[0](LOWERED, 1.0, fun_name="jit_step")
    durations[0](LOWERED, 0.5, fun_name="jit_step")
    assert not jax.compiling()
    monkeypatch.setattr(jax._under_way, "begun", lambda *_: 1 / 0)
    scalars[0](LOWERED, 1.0)
    assert "listening to compiles failed" in STATE.notes[0]


def test_jax_tells_when_it_begins_to_trace():
    jax = pytest.importorskip("jax")
    framework, seen, clock = Jax(), [], Clock()
    framework._under_way._clock = clock
    framework.install()

    def step(x):
        clock.now = COUNTS_FROM_SECONDS
        seen.append(framework.compiling())
        return x + 1

    try:
        jax.jit(step)(1.0)
    finally:
        framework.remove()
    assert seen == [True]
    assert not framework.compiling()
