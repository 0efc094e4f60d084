import time

import jax
import jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(0)
params = [jnp.asarray(rng.normal(size=s) * 0.05, jnp.float32) for s in ((512, 2048), (2048, 512))]
x = jnp.asarray(rng.normal(size=(256, 512)), jnp.float32)


def loss_fn(params, x):
    return ((jax.nn.relu(x @ params[0]) @ params[1] - x) ** 2).mean()


@jax.jit
def train_step(params, x):
    loss, grads = jax.value_and_grad(loss_fn)(params, x)
    return [p - 0.1 * g for p, g in zip(params, grads)], loss


marks = []
for step in range(40):
    if step == 15:
        jax.profiler.start_trace("profile")
    if step == 23:
        loss.block_until_ready()
        jax.profiler.stop_trace()
    params, loss = train_step(params, x)
    marks.append(time.perf_counter())
loss.block_until_ready()
print("loss", float(loss))
print(f"{(time.perf_counter() - marks[24]) / 15 * 1e3:.2f} ms per step")
