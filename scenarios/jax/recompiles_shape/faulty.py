"""Every batch has a length of its own, and the step compiles for each."""

import jax
import numpy as np
from training import network, run, update

train = jax.jit(update)
weights = network(64, 2)
texts = np.random.default_rng(0).normal(size=(1024, 64)).astype(np.float32)


def step(number: int) -> jax.Array:
    global weights
    weights, loss = train(weights, texts[: 32 + number])
    return loss


run(step, steps=24)
