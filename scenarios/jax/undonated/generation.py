"""Text that is generated token by token, with a cache of the keys and values of the tokens before."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from training import run

LENGTH, WIDTH = 8_192, 1_024
Decode = Callable[[jax.Array, jax.Array, int], tuple[jax.Array, jax.Array]]

_projections = jax.random.normal(jax.random.key(0), (3, WIDTH, WIDTH)) / WIDTH**0.5


def decode(cache: jax.Array, token: jax.Array, at: int) -> tuple[jax.Array, jax.Array]:
    """The cache with the token's row, and the next token."""
    query, key, value = jnp.einsum("kij,i->kj", _projections, token)
    cache = cache.at[:, at].set(jnp.stack([key, value]))
    scores = jnp.where(jnp.arange(LENGTH) <= at, cache[0] @ query, -jnp.inf)
    return cache, jnp.tanh(jax.nn.softmax(scores) @ cache[1])


def generate(jitted: Decode) -> None:
    """One token per step."""
    cache, token = jnp.zeros((2, LENGTH, WIDTH)), jnp.ones((WIDTH,))

    def step(number: int) -> jax.Array:
        nonlocal cache, token
        cache, token = jitted(cache, token, number)
        return token.sum()

    run(step)
