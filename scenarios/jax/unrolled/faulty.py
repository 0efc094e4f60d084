"""Python walks through the layers, so the program holds each of them."""

import tempfile

import jax
from deep import apply, trainer
from training import run

# A cache that finds nothing, as at the first start.
jax.config.update("jax_compilation_cache_dir", tempfile.mkdtemp())
run(trainer(apply), steps=8)
