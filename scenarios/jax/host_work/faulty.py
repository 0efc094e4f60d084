"""The loop counts the words of its log between two steps, in Python."""

import jax
from training import network, run, update

train = jax.jit(update)
weights = network(256, 3)
batch = jax.random.normal(jax.random.key(1), (128, 256))
lines = [f"step {number} loss {number / 7:.4f} lr 0.1" for number in range(4000)]


def digest() -> int:
    words: dict[str, int] = {}
    for line in lines:
        for word in line.split():
            words[word] = words.get(word, 0) + 1
    return len(words)


def step(_: int) -> jax.Array:
    global weights
    weights, loss = train(weights, batch)
    digest()
    return loss


run(step, steps=700, marked=False)
