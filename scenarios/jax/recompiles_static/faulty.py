"""The learning rate is a static argument and changes with each step: each value is a program of its own."""

import jax
from training import network, run, update

train = jax.jit(update, static_argnames="rate")
weights = network(64, 2)
batch = jax.random.normal(jax.random.key(1), (64, 64))


def step(number: int) -> jax.Array:
    global weights
    weights, loss = train(weights, batch, rate=0.1 / (1 + number))
    return loss


run(step, steps=24)
