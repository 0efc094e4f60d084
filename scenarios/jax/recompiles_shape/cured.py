"""Every batch is padded to one length."""

import jax
import numpy as np
from training import network, run, update

LONGEST = 128
train = jax.jit(update)
weights = network(64, 2)
texts = np.random.default_rng(0).normal(size=(1024, 64)).astype(np.float32)


def step(number: int) -> jax.Array:
    global weights
    text = texts[: 32 + number]
    weights, loss = train(weights, np.pad(text, ((0, LONGEST - len(text)), (0, 0))))
    return loss


run(step, steps=24)
