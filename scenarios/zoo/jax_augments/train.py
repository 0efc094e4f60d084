import random
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

rng = np.random.default_rng(0)
random.seed(0)
images = rng.normal(size=(512, 24, 24)).astype(np.float32)
labels = rng.integers(0, 10, 512)


def augment(image):
    if random.random() < 0.5:
        image = image[:, ::-1]
    top, left = random.randint(0, 4), random.randint(0, 4)
    padded = np.pad(image, 2)
    patch = padded[top : top + 24, left : left + 24].copy()
    patch[random.randint(0, 20) :][:4] = patch.mean()
    return (patch - patch.mean()) / (patch.std() + 1e-6)


def batches(steps, size=64):
    for _ in range(steps):
        rows = rng.integers(0, len(images), size)
        yield np.stack([augment(images[row]) for row in rows]), labels[rows]


def init(key):
    one, two = jax.random.split(key)
    return {"w": jax.random.normal(one, (576, 96)) * 0.05, "v": jax.random.normal(two, (96, 10)) * 0.1}


def loss_fn(params, x, y):
    logits = jax.nn.relu(x.reshape(len(x), -1) @ params["w"]) @ params["v"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


optimizer = optax.adam(1e-3)


@jax.jit
def train_step(params, state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state, loss


params = init(jax.random.key(0))
state = optimizer.init(params)
marks = []
for x, y in batches(steps=200):
    params, state, loss = train_step(params, state, x, y)
    marks.append(time.perf_counter())
print(f"loss {float(loss):.4f}")
print(f"{(marks[-1] - marks[20]) / (len(marks) - 21) * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
