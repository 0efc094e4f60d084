"""JAX programs that use JAX's profiler themselves, run for real under a capture: neither is in the other's way."""

import json
import os
import subprocess
import sys

import pytest

from tests import scripts
from tpuprof.capture.recorder import GAVE_WAY

pytest.importorskip("jax")

ANOTHER = pytest.mark.slow("another real capture")
HEAD = """
import jax, jax.numpy as jnp, os, time
@jax.jit
def update(w, x):
    return w * 0.999, jnp.sin(x @ w).sum()
w, x = jnp.ones((128, 128)), jnp.ones((128, 128))
def train(seconds):
    global w
    end = time.time() + seconds
    while time.time() < end:
        w, loss = update(w, x)
        float(loss)
"""
ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}


@pytest.fixture
def begun(tmp_path):
    """Starts a program under capture, with a folder of its own for scratch files."""
    (tmp_path / "tmp").mkdir()

    def begin(body, head=HEAD):
        (tmp_path / "train.py").write_text(head + body)
        return subprocess.Popen(
            scripts.capture_command("run", sys.executable, "train.py"), env={**os.environ, **ENVIRONMENT, "TMPDIR": str(tmp_path / "tmp")},
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    return begin


def profiles(folder):
    return sorted(path.relative_to(folder).parts[0] for path in folder.rglob("*.xplane.pb"))


def warnings(run):
    return json.loads((run / "tpuprof" / "run.json").read_text())["warnings"]


def nothing_left(tmp_path):
    return not [path for path in (tmp_path / "tmp").iterdir() if path.name.startswith("tpuprof-")]


# Recording begins after about a second: the program's own session comes in the midst of it.
TRACES = """
from jax._src.profiler import _profile_state
end = time.time() + 120
while _profile_state.profile_session is None and time.time() < end:
    train(0.1)
"""


@pytest.mark.parametrize(
    ("before", "opens"),
    [
        ("", "with jax.profiler.trace('theirs'):\n    train(0.5)\n"),
        pytest.param(
            "from jax.profiler import start_trace, stop_trace\n",
            "start_trace('theirs')\ntrain(0.5)\nstop_trace()\n",
            marks=ANOTHER,
        ),
    ],
)
def test_the_programs_own_trace_ends_ours_and_is_whole(begun, tmp_path, before, opens):
    program = begun(before + TRACES + opens + "print('trained')\n")
    out, err = program.communicate(timeout=300)
    assert program.returncode == 0, err
    assert "trained" in out and "Traceback" not in err
    assert GAVE_WAY in warnings(tmp_path / "run")
    assert profiles(tmp_path) == ["run", "theirs"]
    assert nothing_left(tmp_path)


@ANOTHER
def test_ours_is_not_begun_inside_the_programs_own_trace(begun, tmp_path):
    body = "jax.profiler.start_trace('theirs')\ntrain(4)\njax.profiler.stop_trace()\nprint('trained')\n"
    program = begun(body)
    out, err = program.communicate(timeout=300)
    assert program.returncode == 2, err
    assert "trained" in out and "Traceback" not in err
    assert "the program's own profiler session was open" in err
    assert profiles(tmp_path) == ["theirs"]
    assert nothing_left(tmp_path)


@ANOTHER
def test_marked_steps_are_recorded_after_the_programs_own_trace(begun, tmp_path):
    body = """
import tpuprof
for i in range(60):
    tpuprof.step(i)
    if i == 2: jax.profiler.start_trace('theirs')
    if i == 20: jax.profiler.stop_trace()
    w, loss = update(w, x)
    float(loss)
"""
    program = begun(body)
    _, err = program.communicate(timeout=300)
    assert program.returncode == 0, err
    assert profiles(tmp_path) == ["run", "theirs"]
    # The call of tpuprof.step that comes next begins the recording, and is the 22nd.
    assert "2 of 22 steps; capturing 8" in err
    assert nothing_left(tmp_path)
