"""The whole step is one jitted function."""

import jax
from training import network, run, update

train = jax.jit(update)
weights = network(64, 6)
batch = jax.random.normal(jax.random.key(1), (64, 64))


def step(_: int) -> jax.Array:
    global weights
    weights, loss = train(weights, batch)
    return loss


run(step)
