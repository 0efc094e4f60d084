"""The loop both scripts run: a step hands over one small program per layer, as sampling text does."""

import jax
import jax.numpy as jnp
from training import network

LAYERS = 60
weights = network(192, LAYERS)
text = jax.random.normal(jax.random.key(1), (64, 192))


@jax.jit
def layer(weight: jax.Array, hidden: jax.Array) -> jax.Array:
    return jnp.tanh(hidden @ weight)


@jax.jit
def ended(hidden: jax.Array) -> jax.Array:
    return hidden.max() > 2


def sample() -> jax.Array:
    """Write the next piece of text; whether it has ended, unread."""
    global text
    for weight in weights:
        text = layer(weight, text)
    return ended(text)
