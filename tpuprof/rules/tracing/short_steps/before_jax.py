"""Python calls a short program for each token."""

import jax
import jax.numpy as jnp

import tpuprof

WIDTH, TOKENS = 256, 20_000

weight = jax.random.normal(jax.random.PRNGKey(0), (WIDTH, WIDTH)) * 0.1
state = jax.random.normal(jax.random.PRNGKey(1), (WIDTH,))


def decode(state, _):
    state = jnp.tanh(weight @ state)
    return state, jnp.argmax(state)


# [shown]
next_token = jax.jit(decode)
tokens = []
for token in range(TOKENS):
    tpuprof.step(token)
    state, best = next_token(state, None)
    tokens.append(best)
# [/shown]

print("result", float(state.sum()), int(tokens[-1]))
