"""A user's own kind: an MLP mixer in plain JAX with optax on four chips, its batch over `data`, weights over `model`."""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--remat", action="store_true")
args = parser.parse_args()
tokens, dim, depth = 256, 512, 2
mesh = Mesh(np.array(jax.devices()).reshape(1, -1), ("data", "model"))


def on(value, *spec):
    return jax.device_put(value, NamedSharding(mesh, P(*spec)))


keys = iter(jax.random.split(jax.random.key(0), 4 * depth + 2))


def made(rows, columns, *spec):
    return on(jax.random.normal(next(keys), (rows, columns)) * rows**-0.5, *spec)


layers = [
    {
        "mix": (made(tokens, 512, None, "model"), made(512, tokens, "model", None)),
        "mlp": (made(dim, 2048, None, "model"), made(2048, dim, "model", None)),
    }
    for _ in range(depth)
]
params = {"layers": layers, "in": made(48, dim, None, None), "out": made(dim, 100, None, None)}


def block(x, layer):
    up, down = layer["mix"]
    x = x + (jax.nn.gelu(x.swapaxes(1, 2) @ up) @ down).swapaxes(1, 2)
    up, down = layer["mlp"]
    return x + jax.nn.gelu(x @ up) @ down


def loss_of(params, images, labels):
    x = images @ params["in"]
    for layer in params["layers"]:
        x = (jax.checkpoint(block) if args.remat else block)(x, layer)
    logits = x.mean(1) @ params["out"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


optimizer = optax.adamw(1e-3)
state = optimizer.init(params)


@jax.jit
def step(params, state, images, labels):
    loss, grads = jax.value_and_grad(loss_of)(params, images, labels)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss


images = on(np.ones((args.batch, tokens, 48), np.float32), "data", None, None)
labels = on(np.zeros((args.batch,), np.int32), "data")
for number in range(20):
    params, state, loss = step(params, state, images, labels)
