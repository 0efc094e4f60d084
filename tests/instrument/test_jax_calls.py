"""Calls of JAX are wrapped while a capture runs, also methods of compiled classes, and put back."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tpuprof.instrument.frameworks import jax_calls


class Compiled:
    """A method as compiled modules have them: it may be called, and its name is no text."""

    def __init__(self):
        self.__qualname__ = None

    def __call__(self, *args):
        return ("waited", len(args))


@pytest.fixture
def jax(monkeypatch):
    methods = {name: (lambda self: 1) for name in jax_calls._READS}
    array = type("ArrayImpl", (), {**methods, "block_until_ready": Compiled()})
    module = SimpleNamespace(block_until_ready=len, device_get=len, device_put=len)
    monkeypatch.setitem(sys.modules, "jax", module)
    monkeypatch.setitem(sys.modules, "jax._src.array", SimpleNamespace(ArrayImpl=array))
    yield array
    jax_calls.remove()


def test_a_method_without_a_name_is_wrapped_as_well(jax):
    original = jax.block_until_ready
    assert jax_calls.install() == []
    assert jax.block_until_ready is not original
    assert jax().block_until_ready() == ("waited", 1)
    jax_calls.remove()
    assert jax.block_until_ready is original


@pytest.mark.parametrize("name", ["device_put", "device_put_replicated", "device_put_sharded"])
def test_a_copy_to_the_device_says_whether_it_copied_that_before(jax, monkeypatch, name):
    """`flax.jax_utils.replicate` of the same weights in each step: "make batches ahead" was advised."""
    noted = []
    setattr(sys.modules["jax"], name, len)
    monkeypatch.setattr(jax_calls.STATE, "armed", True)
    monkeypatch.setattr(
        jax_calls, "call_span", lambda event, call, **facts: noted.append((event, call, facts))
    )
    jax_calls.install()
    table, put = np.ones((4, 4)), getattr(sys.modules["jax"], name)
    assert [put(table), put(table), put(table + 1)] == [4, 4, 4]
    assert noted == [(jax_calls.UPLOAD, name, {"again": again}) for again in (0, 1, 0)]


@pytest.mark.parametrize(
    ("kind", "ndim", "read"),
    [("i", 0, True), ("u", 0, True), ("i", 1, False), ("f", 0, False), ("b", 0, False)],
)
def test_what_is_not_one_integer_is_not_read_as_an_index(jax, monkeypatch, kind, ndim, read):
    """`beta ** step` asks for it and goes on where it raises: 54 reads "as an index" stood at such a line."""
    noted = []
    monkeypatch.setattr(jax_calls.STATE, "armed", True)
    monkeypatch.setattr(jax_calls, "call_span", lambda event, call, **facts: noted.append((event, call)))
    jax.dtype, jax.ndim = SimpleNamespace(kind=kind), ndim
    jax_calls.install()
    assert jax().__index__() == 1
    assert noted == ([(jax_calls.HOST_READ, "__index__")] if read else [])
