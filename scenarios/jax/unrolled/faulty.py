"""Python walks through the layers, so the program holds each of them."""

import tempfile

import jax
from deep import LAYERS, block, trainer
from training import run

# A cache that finds nothing, as at the first start.
jax.config.update("jax_compilation_cache_dir", tempfile.mkdtemp())


def apply(layers: dict[str, jax.Array], hidden: jax.Array) -> jax.Array:
    for index in range(LAYERS):
        hidden = block(hidden, jax.tree.map(lambda stacked, at=index: stacked[at], layers))
    return hidden


run(trainer(apply), steps=8)
