"""Forty threads make batches ahead."""

import queue
import threading

import jax
from storage import batches
from training import network, run, update

train = jax.jit(update)
weights = network(256, 2)
ahead: queue.Queue = queue.Queue(maxsize=40)


def fill() -> None:
    for batch in batches():
        ahead.put(batch)


for _ in range(40):
    threading.Thread(target=fill, daemon=True).start()


def step(_: int) -> jax.Array:
    global weights
    weights, loss = train(weights, ahead.get())
    return loss


run(step)
