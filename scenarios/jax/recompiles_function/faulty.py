"""Every step makes a function of its own and jits it, so nothing that was compiled is found again."""

from functools import partial

import jax
from training import network, run, update

weights = network(64, 2)
batch = jax.random.normal(jax.random.key(1), (64, 64))


def step(_: int) -> jax.Array:
    global weights
    train = jax.jit(partial(update, rate=0.1))
    weights, loss = train(weights, batch)
    return loss


run(step, steps=24)
