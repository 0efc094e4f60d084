"""Programs that give inputs back or not, and that add up gradients, compiled by XLA for the CPU and written as serialized HLO.

A process of its own: JAX's threads must not be there when other tests fork.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp

WEIGHT = jnp.ones((64, 128))
BATCH = jnp.ones((32, 64))


def loss(weight, batch):
    return jnp.square(batch @ weight).mean()


def gradient(weight, batch):
    return jax.grad(loss)(weight, batch)


def update(weight, batch):
    return weight - 0.1 * jax.grad(loss)(weight, batch)


def adam(weight, moment, batch):
    found = jax.grad(loss)(weight, batch)
    moment = 0.9 * moment + 0.1 * found
    return weight - 0.1 * moment / (jnp.sqrt(jnp.square(moment)) + 1e-8), moment


def accumulate(held, weight, batch):
    return held + jax.grad(loss)(weight, batch)


def write_row(cache, row):
    return jax.lax.dynamic_update_slice(cache, row, (3, 0))


def loop(weight, batch):
    return jax.lax.fori_loop(0, 3, lambda _, held: held - 0.1 * jax.grad(loss)(held, batch), weight)


SQUARE = jnp.ones((64, 64))
PARTS = tuple(jnp.full((32, 64), float(number)) for number in range(5))


def deep_loss(weights, batch):
    for weight in weights:
        batch = jnp.tanh(batch @ weight)
    return jnp.square(batch).mean()


def changed(weights, gradients):
    return [weight - 0.1 * gradient for weight, gradient in zip(weights, gradients, strict=True)]


def micro_batches(weights, *batches):
    total = [jnp.zeros_like(weight) for weight in weights]
    for batch in batches:
        found = jax.grad(deep_loss)(weights, batch)
        total = [held + each for held, each in zip(total, found, strict=True)]
    return changed(weights, total)


def recurrent(weights, *batches):
    def over_time(weights):
        state = batches[0]
        for batch in batches:
            for weight in weights:
                state = jnp.tanh(state @ weight + batch)
        return jnp.square(state).mean()

    return changed(weights, jax.grad(over_time)(weights))


def views(weights, *batches):
    def apart(weights):
        seen = []
        for batch in batches:
            state = batch
            for weight in weights:
                state = jnp.tanh(state @ weight)
            seen.append(state)
        return jnp.square(sum(seen)).mean()

    return changed(weights, jax.grad(apart)(weights))


def scaled(moments, count):
    """What a library's bias correction makes of the moments: new arrays beside them."""
    return [moment / (1 - 0.9**count) for moment in moments]


# By name: the function, what it is given, and which of that is donated.
PROGRAMS = {
    "update": (update, (WEIGHT, BATCH), ()),
    "update in place": (update, (WEIGHT, BATCH), (0,)),
    "gradient": (gradient, (WEIGHT, BATCH), ()),
    "accumulate": (accumulate, (WEIGHT, WEIGHT, BATCH), ()),
    "accumulate in place": (accumulate, (WEIGHT, WEIGHT, BATCH), (0,)),
    "adam": (adam, (WEIGHT, WEIGHT, BATCH), ()),
    "adam, moment in place": (adam, (WEIGHT, WEIGHT, BATCH), (1,)),
    "write a row": (write_row, (WEIGHT, jnp.ones((1, 128))), ()),
    "write a row in place": (write_row, (WEIGHT, jnp.ones((1, 128))), (0,)),
    "other order": (lambda weight: (weight.T + 1).T.copy(), (WEIGHT,), ()),
    "loop": (loop, (WEIGHT, BATCH), ()),
    "concatenate": (lambda batch: jnp.concatenate([batch, batch]), (BATCH,), ()),
    "one batch": (micro_batches, ([SQUARE, SQUARE], PARTS[0]), ()),
    "micro-batches": (micro_batches, ([SQUARE, SQUARE], *PARTS), ()),
    "recurrent": (recurrent, ([SQUARE, SQUARE], *PARTS), ()),
    "views": (views, ([SQUARE, SQUARE], *PARTS), ()),
    "one op": (lambda left, right: left * right, (WEIGHT, WEIGHT), ()),
    "several ops": (lambda left, right: jnp.tanh(left) * right + left, (WEIGHT, WEIGHT), ()),
    "optimizer of one weight": (lambda weight, gradient: changed([weight], [gradient]), (WEIGHT, WEIGHT), ()),
    "optimizer": (changed, ([WEIGHT, SQUARE], [WEIGHT, SQUARE]), ()),
    "bias correction": (scaled, ([WEIGHT, SQUARE], 3.0), ()),
    "cast": (lambda weight: weight.astype(jnp.bfloat16), (WEIGHT,), ()),
}

for name, (function, given, donated) in PROGRAMS.items():
    made = jax.jit(function, donate_argnums=donated).lower(*given).compile()
    module = made.runtime_executable().hlo_modules()[0]
    (Path(sys.argv[1]) / name).write_bytes(module.as_serialized_hlo_module_proto())
