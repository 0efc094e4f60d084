"""Which arrays are copied to the device again: the same object with the same content, as far as that is compared."""

from types import MappingProxyType

import numpy as np
import pytest
import torch

from tpuprof.instrument.same_arrays import COMPARED, MOST_LEAVES, SameArrays


@pytest.fixture
def seen():
    return SameArrays()


@pytest.mark.parametrize(
    "make", [lambda: np.zeros((64, 64)), lambda: torch.zeros(64, 64)], ids=["numpy", "torch"]
)
def test_the_same_array_is_known_and_another_one_is_not(seen, make):
    array = make()
    assert [seen.again(array) for _ in range(3)] == [False, True, True]
    assert not seen.again(make())


@pytest.mark.parametrize(
    "make", [lambda: np.zeros((64, 64)), lambda: torch.zeros(64, 64)], ids=["numpy", "torch"]
)
def test_a_buffer_that_is_filled_anew_is_another_array(seen, make):
    buffer = make()
    found = []
    for number in range(3):
        buffer[:] = number
        found.append(seen.again(buffer))
    assert found == [False, False, False]


def test_few_numbers_of_a_numpy_array_are_compared(seen):
    array = np.zeros(10 * COMPARED)
    seen.again(array)
    array[1] = 1.0
    assert seen.again(array)
    array[0] = 1.0
    assert not seen.again(array)


def test_each_array_of_a_tree_counts(seen):
    weights = {"up": np.zeros(8), "down": [np.ones(8)]}
    assert [seen.again(weights), seen.again(weights)] == [False, True]
    assert not seen.again({**weights, "bias": np.zeros(2)})


@pytest.mark.parametrize(
    "value", [None, 3.0, [], object(), np.array([object()]), [np.zeros(1)] * (MOST_LEAVES + 1)]
)
def test_anything_else_is_unknown(seen, value):
    assert [seen.again(value), seen.again(value)] == [False, False]


def test_arrays_are_not_kept_alive(seen):
    array = np.zeros(8)
    place = id(array)
    seen.again(array)
    reference = seen._seen[place][0]
    del array
    assert reference() is None


def test_arrays_of_jax_and_mappings_of_them_are_known(seen):
    """A frozen model's variables are a mapping of JAX's arrays, which `replicate` copies to each device."""
    jax = pytest.importorskip("jax")
    weights = MappingProxyType({"kernel": jax.numpy.ones((4, 4)), "bias": np.zeros(4)})
    assert [seen.again(weights) for _ in range(3)] == [False, True, True]
    assert not seen.again({**weights, "bias": jax.numpy.zeros(4)})
