"""While JAX is recorded, the CPU's programs stay in memory, also those compiled meanwhile."""

import gc
import sys
import types
import weakref

import pytest

from tpuprof.instrument.frameworks.kept_programs import FIXED_IN, KeptPrograms


class Program:
    """Stands for a compiled program."""


class Client:
    """Stands for a backend's client, which lists its programs without owning them."""

    def __init__(self):
        self._programs = weakref.WeakSet()

    def compiled(self):
        program = Program()
        self._programs.add(program)
        return program

    def live_executables(self):
        return list(self._programs)


def jaxlib(monkeypatch, version, **clients):
    facts = types.SimpleNamespace(__version_info__=version)
    monkeypatch.setitem(sys.modules, "jaxlib.version", facts)
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", types.SimpleNamespace(_backends=clients))


def alive(client):
    gc.collect()
    return len(client.live_executables())


def test_programs_live_until_the_recording_ends(monkeypatch):
    client, kept = Client(), KeptPrograms()
    jaxlib(monkeypatch, (0, 8, 0), cpu=client)
    before = client.compiled()
    kept.begin()
    meanwhile = client.compiled()
    kept.look()
    del before, meanwhile
    assert alive(client) == 2
    kept.end()
    assert alive(client) == 0


@pytest.mark.parametrize("name, version", [("cpu", FIXED_IN), ("tpu", (0, 8, 0))])
def test_nothing_is_kept_where_jaxlib_reads_no_freed_program(monkeypatch, name, version):
    client, kept = Client(), KeptPrograms()
    jaxlib(monkeypatch, version, **{name: client})
    program = client.compiled()
    kept.begin()
    del program
    assert alive(client) == 0


def test_outside_a_recording_nothing_is_kept(monkeypatch):
    client, kept = Client(), KeptPrograms()
    jaxlib(monkeypatch, (0, 8, 0), cpu=client)
    program = client.compiled()
    kept.look()
    del program
    assert alive(client) == 0


def test_a_forked_process_frees_none_of_its_parents_programs_and_keeps_none_of_its_own(monkeypatch):
    client, kept = Client(), KeptPrograms()
    jaxlib(monkeypatch, (0, 8, 0), cpu=client)
    parents = client.compiled()
    kept.begin()
    kept.forget()
    own = client.compiled()
    kept.look()
    del parents, own
    assert alive(client) == 1
