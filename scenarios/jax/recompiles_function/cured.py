"""The function is made and jitted once."""

from functools import partial

import jax
from training import network, run, update

weights = network(64, 2)
batch = jax.random.normal(jax.random.key(1), (64, 64))
train = jax.jit(partial(update, rate=0.1))


def step(_: int) -> jax.Array:
    global weights
    weights, loss = train(weights, batch)
    return loss


run(step, steps=24)
