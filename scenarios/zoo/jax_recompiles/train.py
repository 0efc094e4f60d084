import time

import jax
import jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(0)
w = jnp.asarray(rng.normal(size=(64, 64)) * 0.1, jnp.float32)
data = rng.normal(size=(64, 64)).astype(np.float32)


@jax.jit
def train_step(w, x):
    loss, grad = jax.value_and_grad(lambda w: ((jnp.tanh(x @ w) - x) ** 2).mean())(w)
    return w - 0.1 * grad, loss


marks = []
for step in range(16):
    if step == 6:
        jax.profiler.start_trace("profile")
    if step == 14:
        loss.block_until_ready()
        jax.profiler.stop_trace()
    w, loss = train_step(w, data[: 10 + 3 * step])
    loss.block_until_ready()
    marks.append(time.perf_counter())
print("loss", float(loss))
print(f"{(marks[-1] - marks[-3]) / 2 * 1e3:.2f} ms per step")
