"""XLA's CPU backend reads programs that were freed while it is recorded: a recording keeps them until it has ended."""

import os
import sys

import pytest

from tests import scripts
from tpuprof.analysis.analyze import analyze_run

pytest.importorskip("jax")

# Each function jitted here is replaced while its last execution runs, which then is the program's only owner.
PROGRAM = """
import jax, jax.numpy as jnp, tpuprof
def made(rate):
    @jax.jit
    def step(w, x):
        loss, slope = jax.value_and_grad(lambda w: jnp.mean(jnp.cos(x @ w) ** 2))(w)
        return w - rate * slope, loss
    return step
w, x = jnp.eye(200), jnp.ones((200, 200))
for i in range(60):
    tpuprof.step(i)
    step = made(0.1 * 0.99**i)
    for _ in range(6):
        w, loss = step(w, x)
"""
# glibc overwrites what is freed, so that a read of it never finds the old bytes. Ops on several threads.
ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "MALLOC_PERTURB_": "165", "XLA_FLAGS": ""}


def test_a_program_freed_while_it_is_recorded_does_not_end_the_training(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    run = tmp_path / "run"
    options = ("--warmup", "1", "--steps", "40")
    done = scripts.capture(run, sys.executable, script, options=options, env={**os.environ, **ENVIRONMENT})
    assert done.returncode == 0, done.stderr
    assert analyze_run(run).steps.count == 40
