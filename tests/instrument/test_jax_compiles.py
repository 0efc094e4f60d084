"""What JAX says about compiles is noted, in bounded memory, and nothing of ours reaches the program."""

import logging
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tpuprof.instrument.frameworks import jax as framework
from tpuprof.instrument.frameworks import jax_explains
from tpuprof.instrument.frameworks.jax import _COMPILED, MAX_FOUND, Jax
from tpuprof.instrument.state import STATE
from tpuprof.safe_text import FROM_SAFE


@pytest.fixture
def heard(monkeypatch):
    """Tells a `Jax` of an event as JAX does."""
    listeners = []
    monitoring = SimpleNamespace(
        register_event_duration_secs_listener=listeners.append,
        _unregister_event_duration_listener_by_callback=listeners.remove,
    )
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(monitoring=monitoring))
    monkeypatch.setitem(sys.modules, "jax._src.monitoring", monitoring)
    monkeypatch.setattr(STATE, "notes", [])
    monkeypatch.setattr(STATE, "armed", True)

    def tell(seconds=0.5):
        for each in tuple(listeners):
            each(_COMPILED, seconds)

    return tell


@pytest.fixture(autouse=True)
def no_handler_stays():
    yield
    logger = logging.getLogger("jax")
    for handler in [each for each in logger.handlers if isinstance(each, jax_explains.Explanations)]:
        logger.removeHandler(handler)


def test_listening_ends_and_begins_again(heard):
    jax = Jax()
    jax.install()
    jax.install()
    heard()
    jax.remove()
    heard()
    jax.install()
    heard()
    assert jax.compiles() == 2


def test_a_compile_puts_its_frames_on_the_timeline(heard, monkeypatch):
    said = []
    monkeypatch.setattr(framework, "open_span", lambda name, mark, **facts: said.append((name, mark, facts)))
    monkeypatch.setattr(framework, "definition", lambda: "step (train.py:52)")
    Jax().install()
    heard()
    monkeypatch.setattr(STATE, "armed", False)
    heard()
    ((name, mark, facts),) = said
    assert (name, mark) == ("tpuprof.compiled", "compiled")
    assert facts["frames"].translate(FROM_SAFE).startswith(f"tell ({__file__}:")
    assert facts["defined"].translate(FROM_SAFE) == "step (train.py:52)"


def test_a_failure_of_ours_does_not_reach_the_program(heard, monkeypatch):
    jax = Jax()
    jax.install()
    monkeypatch.setattr(framework, "user_frames", lambda: 1 / 0)
    heard()
    assert "listening to compiles failed" in STATE.notes[0]


def test_compiles_that_nobody_asks_for_are_kept_in_bounded_memory(heard, monkeypatch):
    monkeypatch.setattr(framework, "user_frames", list)
    jax = Jax()
    jax.install()
    for _ in range(MAX_FOUND + 5):
        heard()
    assert (jax.compiles(), len(jax.drain_compiles()), jax.drain_compiles()) == (MAX_FOUND + 5, MAX_FOUND, [])


def test_answers_of_the_persistent_cache_are_counted(monkeypatch):
    durations, events = [], []
    monitoring = SimpleNamespace(
        register_event_duration_secs_listener=durations.append, register_event_listener=events.append
    )
    config = SimpleNamespace(jax_enable_compilation_cache=True, jax_compilation_cache_dir="/tmp/kept")
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(monitoring=monitoring, config=config))
    jax = Jax()
    jax.install()
    durations[0](framework._CACHE_HIT, 0.1)
    events[0](framework._CACHE_MISS)
    events[0]("/jax/another")
    names = ("PersistentCacheHit", "PersistentCacheLoad", "PersistentCacheMiss", "UncachedCompile")
    assert [jax._xla_counter_value(name) for name in names] == [1, 1, 1, 0]
    assert jax.cache_path() == "/tmp/kept"
    config.jax_enable_compilation_cache = False
    assert jax.cache_path() == ""


def test_explanations_of_cache_misses_are_put_on_the_timeline(heard, monkeypatch):
    said = []
    monkeypatch.setattr(jax_explains, "open_span", lambda name, mark, **facts: said.append(facts["text"]))
    jax, logger = Jax(), logging.getLogger("jax._src.pjit")
    jax.install()
    logger.warning("TRACING CACHE MISS at train.py:3 because:\n%s", "x" * 2 * jax_explains.MAX_TEXT)
    logger.warning("something else")
    monkeypatch.setattr(STATE, "armed", False)
    logger.warning("TRACING CACHE MISS at train.py:4")
    monkeypatch.setattr(STATE, "armed", True)
    jax.remove()
    logger.warning("TRACING CACHE MISS at train.py:5")
    (text,) = said
    assert (
        text.translate(FROM_SAFE)
        == "TRACING CACHE MISS at train.py:3 because:\n" + "x" * jax_explains.MAX_TEXT
    )


def test_an_explanation_that_fails_does_not_reach_the_program(heard, monkeypatch, capfd):
    monkeypatch.setattr(jax_explains, "open_span", lambda *_, **__: 1 / 0)
    jax = Jax()
    jax.install()
    logging.getLogger("jax._src.pjit").warning("TRACING CACHE MISS at train.py:3")
    jax.remove()
    assert "listening to explanations failed" in STATE.notes[0]


@pytest.mark.parametrize("own", [False, True], ids=["none of the program's", "the program has a handler"])
def test_the_program_prints_jax_warnings_as_without_us(heard, own):
    program = """
import logging, sys
from types import SimpleNamespace
from tpuprof.instrument.frameworks.jax_explains import Explanations
logger = logging.getLogger("jax._src.pjit")
if sys.argv[2] == "own":
    logging.getLogger("jax").addHandler(logging.StreamHandler(sys.stdout))
if sys.argv[1] == "listens":
    Explanations().install()
logger.warning("TRACING CACHE MISS at train.py:3")
logger.warning("something else")
logger.info("too low")
"""

    def printed(listens):
        words = [sys.executable, "-c", program, listens, "own" if own else ""]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return done.stdout, done.stderr

    assert printed("listens") == printed("")
    assert "something else" in "".join(printed("listens"))
