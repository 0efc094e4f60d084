import time

import jax
import jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(0)
params = [jnp.asarray(rng.normal(size=s) * 0.05, jnp.float32) for s in ((256, 512), (512, 256))]
data = rng.normal(size=(8, 256, 256)).astype(np.float32)
words = [" ".join(str(n * k % 97) for k in range(2400)) for n in range(1, 9)]


def loss_fn(params, x):
    return ((jax.nn.relu(x @ params[0]) @ params[1] - x) ** 2).mean()


@jax.jit
def train_step(params, x):
    loss, grads = jax.value_and_grad(loss_fn)(params, x)
    return [p - 0.1 * g for p, g in zip(params, grads)], loss


def weight(text):
    counts = {}
    for word in text.split():
        counts[word] = counts.get(word, 0) + len(word)
    return sum(counts.values()) / len(counts)


total = 0.0
marks = []
for step in range(300):
    scale = np.float32(sum(weight(text) for text in words) / 1000)
    params, loss = train_step(params, data[step % 8] * scale)
    total += float(loss)
    marks.append(time.perf_counter())
print(f"mean loss {total / len(marks):.4f}")
print(f"{(marks[-1] - marks[30]) / (len(marks) - 31) * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
