"""With jit the whole step is one program."""

import functools

import jax
import jax.numpy as jnp

import tpuprof

WIDTH, DEPTH, BATCH, STEPS = 256, 8, 128, 60

keys = jax.random.split(jax.random.PRNGKey(0), DEPTH)
params = [jax.random.normal(key, (WIDTH, WIDTH)) * 0.05 for key in keys]
data = jax.random.normal(jax.random.PRNGKey(1), (BATCH, WIDTH))


def loss_of(params, data):
    for weight in params:
        data = jnp.tanh(data @ weight)
    return jnp.square(data).mean()


# [shown]
@functools.partial(jax.jit, donate_argnums=0)
def train_step(params, data):
    loss, gradients = jax.value_and_grad(loss_of)(params, data)
    return [weight - 0.01 * gradient for weight, gradient in zip(params, gradients, strict=True)], loss


# [/shown]
for step in range(STEPS):
    tpuprof.step(step)
    params, loss = train_step(params, data)

print("result", float(loss))
