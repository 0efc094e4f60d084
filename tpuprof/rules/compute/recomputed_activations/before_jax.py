"""Each block keeps its input alone, and runs again for its gradients, though memory has room for its activations."""

import jax
import jax.numpy as jnp
import numpy as np

import tpuprof

WIDTH, DEPTH, BATCH, STEPS = 128, 8, 1024, 30

rng = np.random.default_rng(0)
weights = [
    tuple(
        jnp.asarray(rng.normal(size=shape) * 0.02, jnp.float32)
        for shape in ((WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH))
    )
    for _ in range(DEPTH)
]
batch = jnp.asarray(rng.normal(size=(BATCH, WIDTH)), jnp.float32)


def block(x, weights):
    x = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
    return x + jax.nn.softmax(jax.nn.gelu(x @ weights[0])) @ weights[1]


def loss_of(weights, x):
    # [shown]
    for each in weights:
        x = jax.checkpoint(block)(x, each)
    # [/shown]
    return jnp.square(x).mean()


@jax.jit
def train_step(weights, x):
    loss, gradients = jax.value_and_grad(loss_of)(weights, x)
    return jax.tree.map(lambda each, gradient: each - 0.01 * gradient, weights, gradients), loss


for step in range(STEPS):
    tpuprof.step(step)
    weights, loss = train_step(weights, batch)
    loss.block_until_ready()

print("result", float(loss))
