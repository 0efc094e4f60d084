"""Without jit each op of the step is a program of its own, and so is each slice of its batch."""

import jax
import jax.numpy as jnp
import numpy as np

import tpuprof

WIDTH, DEPTH, BATCH, STEPS = 256, 8, 128, 60

keys = jax.random.split(jax.random.PRNGKey(0), DEPTH)
params = [jax.random.normal(key, (WIDTH, WIDTH)) * 0.05 for key in keys]
series = jax.random.normal(jax.random.PRNGKey(1), (10 * WIDTH,))
starts = np.random.default_rng(0).integers(0, 9 * WIDTH, (STEPS, BATCH))


def loss_of(params, data):
    for weight in params:
        data = jnp.tanh(data @ weight)
    return jnp.square(data).mean()


# [shown]
def train_step(params, starts):
    data = jnp.stack([series[start : start + WIDTH] for start in starts])
    loss, gradients = jax.value_and_grad(loss_of)(params, data)
    return [weight - 0.01 * gradient for weight, gradient in zip(params, gradients, strict=True)], loss


# [/shown]
for step in range(STEPS):
    tpuprof.step(step)
    params, loss = train_step(params, starts[step])

print("result", float(loss))
