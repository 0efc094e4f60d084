"""One call runs many tokens."""

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
@jax.jit
def many_tokens(state):
    return jax.lax.scan(decode, state, length=1000)


tokens = []
for part in range(TOKENS // 1000):
    tpuprof.step(part)
    state, best = many_tokens(state)
    tokens += best.tolist()
# [/shown]

print("result", float(state.sum()), tokens[-1])
