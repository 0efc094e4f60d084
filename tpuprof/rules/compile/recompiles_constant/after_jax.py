"""One function is jitted once, and takes the batch as arguments."""

import jax
import jax.numpy as jnp
import numpy as np

import tpuprof

WIDTH, BATCH, STEPS = 256, 128, 40

rng = np.random.default_rng(0)
weights = [
    jnp.asarray(rng.normal(size=shape) * 0.05, jnp.float32) for shape in ((WIDTH, 4 * WIDTH), (4 * WIDTH, 1))
]


def loss_of(weights, x, y):
    return jnp.square(jax.nn.gelu(x @ weights[0]) @ weights[1] - y).mean()


# [shown]
grad = jax.jit(jax.value_and_grad(loss_of))
# [/shown]

for step in range(STEPS):
    tpuprof.step(step)
    x = jnp.asarray(rng.normal(size=(BATCH, WIDTH)), jnp.float32)
    y = x.mean(axis=1, keepdims=True)
    # [shown]
    loss, gradients = grad(weights, x, y)
    # [/shown]
    weights = [each - 0.01 * gradient for each, gradient in zip(weights, gradients, strict=True)]

print("result", float(loss))
