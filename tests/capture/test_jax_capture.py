"""`tpuprof capture -- python train.py` on JAX programs, run for real on CPU."""

import os
import subprocess
import sys

import pytest

from tpuprof.analysis.analyze import analyze_run

pytest.importorskip("jax")

HEAD = """
import jax, jax.numpy as jnp, time
@jax.jit
def update(w, x):
    return w * 0.999, jnp.sin(x @ w).sum()
w, x = jnp.ones((128, 128)), jnp.ones((128, 128))
"""
ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}


def captured(tmp_path, body):
    script = tmp_path / "train.py"
    script.write_text(HEAD + body)
    command = [
        sys.executable,
        "-m",
        "tpuprof",
        "capture",
        "-o",
        str(tmp_path / "run"),
        "--",
        sys.executable,
        str(script),
    ]
    done = subprocess.run(
        command, check=False, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return analyze_run(tmp_path / "run"), done


def test_tpuprof_step_marks_the_steps_and_a_read_has_its_line(tmp_path):
    body = "import tpuprof\nfor i in range(40):\n    tpuprof.step(i)\n    w, loss = update(w, x)\n    float(loss)\n"
    report, done = captured(tmp_path, body)
    assert (report.steps.count, report.steps.method) == (8, "step markers")
    assert report.environment["framework"] == "jax"
    assert "torch_xla" not in done.stderr
    (read,) = [row for row in report.host_reads if row.call == "__float__"]
    assert read.source.endswith("train.py:11") and read.occurrences == 8


def test_jax_own_step_annotation_marks_the_steps(tmp_path):
    body = (
        "for i in range(40):\n    with jax.profiler.StepTraceAnnotation('train', step_num=i):\n"
        "        w, loss = update(w, x)\n        loss.block_until_ready()\n"
    )
    report, _ = captured(tmp_path, body)
    assert (report.steps.count, report.steps.method) == (8, "step markers")


def test_a_program_without_steps_is_recorded_by_the_clock(tmp_path):
    body = "end = time.time() + 5\nwhile time.time() < end:\n    w, loss = update(w, x)\n    float(loss)\n"
    report, done = captured(tmp_path, body)
    assert "by the clock" in done.stderr
    assert report.steps.count > 8
    assert "truncated-trace" not in [each.rule for each in report.findings if each.status == "failed"]


def test_compiles_are_counted_with_their_lines(tmp_path):
    body = (
        "import tpuprof\nfor i in range(40):\n    tpuprof.step(i)\n"
        "    w, loss = update(w, jnp.ones((100 + i, 128)))\n    float(loss)\n"
    )
    report, _ = captured(tmp_path, body)
    assert report.verdict.bound == "compile"
    assert any("train.py" in frame for row in report.compiles for frame in row.frames)
