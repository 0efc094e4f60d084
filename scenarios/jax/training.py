"""What the JAX scenario scripts share: a model and a training loop that times itself.

Nothing here imports tpuprof: the scripts are captured as a stranger's are. Both scripts of a pair run a fixed number of
steps, and print what a step took as one line of JSON.
"""

from __future__ import annotations

import contextlib
import gc
import json
import time
from collections.abc import Callable

_BEGAN = time.perf_counter()

import jax
import jax.numpy as jnp

# Steps that are not timed: the first compiles.
WARMUP = 2
# Steps that are timed.
STEPS = 120


def run(
    step: Callable[[int], object], steps: int = STEPS, warmup: int = WARMUP, *, marked: bool = True
) -> None:
    """Train `warmup` steps, then `steps` timed ones, the device's backlog included; print milliseconds per step.

    `start_s` is the time from the script's first line to the end of the warm-up.
    """
    # Python's rounds over everything that imports have left would fall into some runs' steps and not into others'.
    gc.collect()
    gc.freeze()
    for number in range(warmup):
        with _mark(number, marked):
            result = step(number)
    jax.block_until_ready(result)
    began = time.perf_counter()
    for number in range(warmup, warmup + steps):
        with _mark(number, marked):
            result = step(number)
    jax.block_until_ready(result)
    ended = time.perf_counter()
    facts = {"step_ms": (ended - began) * 1e3 / steps, "steps": steps, "start_s": began - _BEGAN}
    print("SCENARIO " + json.dumps(facts), flush=True)


def _mark(number: int, marked: bool) -> contextlib.AbstractContextManager[object]:
    return jax.profiler.StepTraceAnnotation("train", step_num=number) if marked else contextlib.nullcontext()


def network(width: int, layers: int) -> list[jax.Array]:
    """Square matrices, always the same."""
    keys = jax.random.split(jax.random.key(0), layers)
    return [jax.random.normal(key, (width, width)) * width**-0.5 for key in keys]


def loss_of(weights: list[jax.Array], batch: jax.Array) -> jax.Array:
    """How well the network rebuilds its input."""
    hidden = batch
    for weight in weights:
        hidden = jnp.tanh(hidden @ weight)
    return jnp.square(hidden - batch).mean()


def update(
    weights: list[jax.Array], batch: jax.Array, rate: float = 0.1
) -> tuple[list[jax.Array], jax.Array]:
    """New weights, and the loss before."""
    loss, slopes = jax.value_and_grad(loss_of)(weights, batch)
    return [weight - rate * slope for weight, slope in zip(weights, slopes, strict=True)], loss
