import time

import jax
import jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(0)
params = [jnp.asarray(rng.normal(size=s) * 0.1, jnp.float32) for s in ((16, 64), (64, 64), (64, 16))]
x = jnp.asarray(rng.normal(size=(32, 16)), jnp.float32)


def loss_fn(params, x):
    h = x
    for p in params:
        h = jnp.tanh(h @ p)
    return ((h - x) ** 2).mean()


marks = []
for step in range(40):
    if step == 15:
        jax.profiler.start_trace("profile")
    if step == 23:
        loss.block_until_ready()
        jax.profiler.stop_trace()
    loss, grads = jax.value_and_grad(loss_fn)(params, x)
    params = [p - 0.1 * g for p, g in zip(params, grads)]
    marks.append(time.perf_counter())
loss.block_until_ready()
print("loss", float(loss))
print(f"{(time.perf_counter() - marks[24]) / 15 * 1e3:.2f} ms per step")
