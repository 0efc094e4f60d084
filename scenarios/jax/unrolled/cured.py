"""`jax.lax.scan` runs one layer's program for all of them."""

import tempfile

import jax
from deep import block, trainer
from training import run

# A cache that finds nothing, as at the first start.
jax.config.update("jax_compilation_cache_dir", tempfile.mkdtemp())


def apply(layers: dict[str, jax.Array], hidden: jax.Array) -> jax.Array:
    return jax.lax.scan(lambda hidden, layer: (block(hidden, layer), None), hidden, layers)[0]


run(trainer(apply), steps=8)
