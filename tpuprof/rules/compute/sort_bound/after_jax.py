"""The few largest scores are found without a sort of all of them."""

import jax
import jax.numpy as jnp
import numpy as np

import tpuprof

WIDTH, CLASSES, KEPT, BATCH, STEPS = 1024, 4096, 8, 64, 30

rng = np.random.default_rng(0)
weight = jnp.asarray(rng.normal(size=(WIDTH, CLASSES)) * 0.1, jnp.float32)
batch = jnp.asarray(rng.normal(size=(BATCH, WIDTH)), jnp.float32)


def loss_of(weight, batch):
    scores = batch @ weight
    # [shown]
    best = jax.lax.top_k(scores, KEPT)[0]
    # [/shown]
    return jnp.square(1 - best).mean()


@jax.jit
def train_step(weight, batch):
    loss, gradient = jax.value_and_grad(loss_of)(weight, batch)
    return weight - 0.01 * gradient, loss


for step in range(STEPS):
    tpuprof.step(step)
    weight, loss = train_step(weight, batch)
    loss.block_until_ready()

print("result", float(loss))
