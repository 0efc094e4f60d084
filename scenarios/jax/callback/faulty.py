"""Each step asks Python for the augmented batch from inside the program, and waits for it."""

import time

import jax
import numpy as np
from training import network, run, update

weights = network(256, 3)
batch = jax.random.normal(jax.random.key(1), (128, 256))


def looked_up(rows: np.ndarray) -> np.ndarray:
    time.sleep(0.01)  # a feature store answers
    return np.asarray(rows) * np.float32(0.5)


@jax.jit
def train(weights: list[jax.Array], batch: jax.Array) -> tuple[list[jax.Array], jax.Array]:
    batch = jax.pure_callback(looked_up, jax.ShapeDtypeStruct(batch.shape, batch.dtype), batch)
    return update(weights, batch)


def step(_: int) -> jax.Array:
    global weights
    weights, loss = train(weights, batch)
    return loss


run(step)
