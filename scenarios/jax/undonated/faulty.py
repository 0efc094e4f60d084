"""The cache of keys and values is not donated: each token copies all of it."""

import jax
from generation import decode, generate

generate(jax.jit(decode))
