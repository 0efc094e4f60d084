"""The learning rate is an ordinary argument: one program serves every value."""

import jax
from training import network, run, update

train = jax.jit(update)
weights = network(64, 2)
batch = jax.random.normal(jax.random.key(1), (64, 64))


def step(number: int) -> jax.Array:
    global weights
    weights, loss = train(weights, batch, rate=0.1 / (1 + number))
    return loss


run(step, steps=24)
