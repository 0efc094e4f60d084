import time

import jax
import jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(0)
params = [jnp.asarray(rng.normal(size=s) * 0.05, jnp.float32) for s in ((512, 1024), (1024, 512))]
data = rng.normal(size=(8, 256, 512)).astype(np.float32)


def loss_fn(params, x):
    return ((jax.nn.relu(x @ params[0]) @ params[1] - x) ** 2).mean()


@jax.jit
def train_step(params, x):
    loss, grads = jax.value_and_grad(loss_fn)(params, x)
    return [p - 0.1 * g for p, g in zip(params, grads)], loss


marks = []
for step in range(200):
    params, loss = train_step(params, data[step % 8])
    if step % 50 == 49:
        print(f"step {step + 1}: loss {float(loss):.4f}")
    marks.append(time.perf_counter())
jax.block_until_ready(params)
print(f"{(time.perf_counter() - marks[50]) / (len(marks) - 51) * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
