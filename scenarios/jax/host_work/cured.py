"""The log is read through once, after training."""

import jax
from training import network, run, update

train = jax.jit(update)
weights = network(256, 3)
batch = jax.random.normal(jax.random.key(1), (128, 256))


def step(_: int) -> jax.Array:
    global weights
    weights, loss = train(weights, batch)
    return loss


run(step, steps=700, marked=False)
