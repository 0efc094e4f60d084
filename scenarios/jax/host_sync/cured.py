"""The answers are kept on the device and read at the end."""

import jax
from sampling import sample
from training import run

ends = []


def step(_: int) -> jax.Array:
    ends.append(sample())
    return ends[-1]


run(step)
