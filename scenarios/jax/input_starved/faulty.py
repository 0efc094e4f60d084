"""The batch is made between two steps, while the device has nothing to do."""

import jax
from storage import batches
from training import network, run, update

train = jax.jit(update)
weights = network(256, 2)
stream = batches()


def step(_: int) -> jax.Array:
    global weights
    weights, loss = train(weights, next(stream))
    return loss


run(step)
