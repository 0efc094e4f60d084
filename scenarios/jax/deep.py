"""A deep network of equal layers, and a step that trains it as `apply` runs it."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

LAYERS, WIDTH, ROWS = 200, 32, 16
key = jax.random.key(0)
layers = {
    "up": jax.random.normal(key, (LAYERS, WIDTH, 2 * WIDTH)) * 0.1,
    "down": jax.random.normal(key, (LAYERS, 2 * WIDTH, WIDTH)) * 0.1,
    "scale": jnp.ones((LAYERS, WIDTH)),
}
batch = jax.random.normal(key, (ROWS, WIDTH))


def block(hidden: jax.Array, layer: dict[str, jax.Array]) -> jax.Array:
    """Attention over the rows, then two matrices."""
    hidden = hidden / jnp.sqrt(jnp.square(hidden).mean(-1, keepdims=True) + 1e-6) * layer["scale"]
    mixed = jax.nn.softmax(hidden @ hidden.T) @ hidden
    return hidden + jax.nn.gelu(mixed @ layer["up"]) @ layer["down"]


def trainer(apply: Callable[..., jax.Array]) -> Callable[[int], jax.Array]:
    """A step of gradient descent through `apply(layers, batch)`."""

    def loss_of(layers: dict[str, jax.Array]) -> jax.Array:
        return jnp.square(apply(layers, batch)).mean()

    @jax.jit
    def train(layers: dict[str, jax.Array]) -> tuple[dict[str, jax.Array], jax.Array]:
        loss, slopes = jax.value_and_grad(loss_of)(layers)
        return jax.tree.map(lambda old, slope: old - 1e-3 * slope, layers, slopes), loss

    state = layers

    def step(_: int) -> jax.Array:
        nonlocal state
        state, loss = train(state)
        return loss

    return step


def apply(layers: dict[str, jax.Array], hidden: jax.Array) -> jax.Array:
    """The layers, one after the other."""
    for index in range(LAYERS):
        hidden = block(hidden, jax.tree.map(lambda stacked, at=index: stacked[at], layers))
    return hidden
