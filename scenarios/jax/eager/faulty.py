"""The step is not jitted: each operation is a program of its own."""

import jax
from training import network, run, update

weights = network(64, 6)
batch = jax.random.normal(jax.random.key(1), (64, 64))


def step(_: int) -> jax.Array:
    global weights
    weights, loss = update(weights, batch)
    return loss


run(step)
