"""`tpuprof capture -- python train.py` on JAX programs, run for real on CPU."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys

import pytest

from tests import scripts
from tpuprof.analysis.analyze import analyze_run
from tpuprof.capture.interim import UNENDED

pytest.importorskip("jax")

ANOTHER = pytest.mark.slow("another real capture")
HEAD = """
import jax, jax.numpy as jnp, time
@jax.jit
def update(w, x):
    return w * 0.999, jnp.sin(x @ w).sum()
w, x = jnp.ones((128, 128)), jnp.ones((128, 128))
"""
# Trains until its recording by the clock is over and looked at, and is killed.
KILLED = """
end = time.time() + 5
while time.time() < end:
    w, loss = update(w, x)
    float(loss)
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
"""
ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}


def captured(tmp_path, body):
    script = tmp_path / "train.py"
    script.write_text(HEAD + body)
    done = scripts.capture(tmp_path / "run", sys.executable, script, env={**os.environ, **ENVIRONMENT})
    assert done.returncode == 0, done.stderr
    return analyze_run(tmp_path / "run"), done


def telemetry(run):
    (path,) = (run / "tpuprof").glob("telemetry.*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_tpuprof_step_marks_the_steps_and_a_read_has_its_line(tmp_path):
    body = "import tpuprof\nfor i in range(40):\n    tpuprof.step(i)\n    w, loss = update(w, x)\n    float(loss)\n"
    report, done = captured(tmp_path, body)
    assert (report.steps.count, report.steps.method) == (8, "step markers")
    assert report.environment["framework"] == "jax"
    assert "torch_xla" not in done.stderr
    (read,) = [row for row in report.host_reads if row.call == "__float__"]
    assert read.source.endswith("train.py:11") and read.occurrences == 8


@ANOTHER
def test_jax_own_step_annotation_marks_the_steps(tmp_path):
    body = (
        "for i in range(40):\n    with jax.profiler.StepTraceAnnotation('train', step_num=i):\n"
        "        w, loss = update(w, x)\n        loss.block_until_ready()\n"
    )
    report, _ = captured(tmp_path, body)
    assert (report.steps.count, report.steps.method) == (8, "step markers")


@ANOTHER
def test_steps_marked_in_two_ways_count_once(tmp_path):
    body = (
        "import tpuprof\nfor i in range(40):\n    with jax.profiler.StepTraceAnnotation('train', step_num=i):\n"
        "        tpuprof.step(i)\n        w, loss = update(w, x)\n        loss.block_until_ready()\n"
    )
    report, _ = captured(tmp_path, body)
    assert (report.steps.count, report.steps.method) == (8, "step markers")
    numbers = [record["step"] for record in telemetry(tmp_path / "run") if record["captured"]]
    assert numbers == list(range(numbers[0], numbers[0] + 8))


@ANOTHER
def test_an_annotated_evaluation_is_no_step(tmp_path):
    body = (
        "def loop(name, i):\n    with jax.profiler.StepTraceAnnotation(name, step_num=i):\n"
        "        global w\n        w, loss = update(w, x)\n        loss.block_until_ready()\n"
        "loop('eval', 0)\nfor i in range(40):\n    loop('train', i)\n    loop('eval', i)\n"
    )
    captured(tmp_path, body)
    numbers = [record["step"] for record in telemetry(tmp_path / "run") if record["captured"]]
    assert numbers == list(range(numbers[0], numbers[0] + 8))


@ANOTHER
def test_a_second_profile_in_one_process_sees_its_compiles(tmp_path):
    body = (
        "import sys, tpuprof\nfor name, most in (('a', 100), ('b', 200)):\n"
        "    with tpuprof.profile(sys.argv[1] + name, warmup=1, steps=3) as capture:\n"
        "        for i in range(8):\n            w, loss = update(w, jnp.ones((most + i, 128)))\n"
        "            float(loss)\n            capture.step()\n"
    )
    script = tmp_path / "train.py"
    script.write_text(HEAD + body)
    command = [sys.executable, str(script), str(tmp_path / "run")]
    subprocess.run(command, check=True, env={**os.environ, **ENVIRONMENT}, timeout=300)
    for name in "ab":
        records = telemetry(tmp_path / f"run{name}")
        assert [bool(record["compiles"]) for record in records if record["captured"]] == [True] * 3


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="signals are looked up in /proc")
@ANOTHER
def test_a_recording_by_the_clock_outlives_a_request_to_end(tmp_path):
    (tmp_path / "train.py").write_text(
        HEAD + "import os, signal\nfrom jax._src.profiler import _profile_state\nend = time.time() + 60\n"
        "def recorded(): return _profile_state.profile_session is not None\n"
        "steps = 0\nwhile time.time() < end:\n    w, loss = update(w, x)\n    float(loss)\n"
        "    steps += recorded()\n    if steps == 30:\n        os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    done = scripts.capture("run", sys.executable, "train.py", env={**os.environ, **ENVIRONMENT}, cwd=tmp_path)
    assert "Traceback" not in done.stderr
    assert done.returncode == 128 + signal.SIGTERM
    assert analyze_run(tmp_path / "run").environment["framework"] == "jax", done.stderr


@pytest.mark.slow("imports both frameworks")
def test_a_program_whose_compiles_were_seen_is_recorded_although_torch_xla_is_imported_later(tmp_path):
    pytest.importorskip("torch_xla")
    body = (
        "import tpuprof\nfor i in range(40):\n    tpuprof.step(i)\n    w, loss = update(w, x)\n    float(loss)\n"
        "    if i == 2: import torch_xla\n"
    )
    report, _ = captured(tmp_path, body)
    assert (report.steps.count, report.environment["framework"]) == (8, "jax")


def test_a_program_without_steps_is_recorded_by_the_clock(tmp_path):
    body = """
import threading
def train(w, x):
    end = time.time() + 5
    while time.time() < end:
        w, loss = update(w, x)
        float(loss)
        time.sleep(0.01)
thread = threading.Thread(target=train, args=(w, x))
thread.start()
thread.join()
"""
    report, done = captured(tmp_path, body)
    # The thread that compiled is the one to look at, and not the main one, which waits for it.
    assert "time.sleep" in str(report.host_stacks) and "join" not in str(report.host_stacks)
    assert "by the clock" in done.stderr
    # XLA's errors where tensorflow is not installed: two per recording.
    assert importlib.util.find_spec("tensorflow") or "tensorflow" not in done.stderr
    assert report.steps.count > 8
    before = telemetry(tmp_path / "run")[0]
    assert not before["captured"] and sum(each["seconds"] for each in before["compiles"]) > 0
    assert "truncated-trace" not in [each.rule for each in report.findings if each.status == "failed"]
    # What was kept while the program went on is gone.
    assert not [note for note in report.warnings if UNENDED in note]
    files = [path.name.partition(".")[0] for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert files.count("telemetry") == files.count("run") == 1
    assert len(list((tmp_path / "run").rglob("*.xplane.pb"))) == 1


def test_a_recording_by_the_clock_outlives_a_program_that_is_killed(tmp_path):
    """It was written at the program's end alone: one that ran out of memory after hours left nothing."""
    script = tmp_path / "train.py"
    script.write_text(f"{HEAD}import os, signal{KILLED}")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, **ENVIRONMENT, "TMPDIR": str(temporary)}
    done = scripts.capture(tmp_path / "run", sys.executable, script, env=environment)
    assert (
        done.returncode,
        "SIGKILL ended the program; what was captured is kept" in done.stderr,
    ) == (137, True)
    report = analyze_run(tmp_path / "run")
    assert report.steps.count > 8
    assert list(temporary.iterdir()) == []
    assert not [note for note in report.warnings if UNENDED in note]
    assert "SIGKILL ended the program: what it did after the recording is unknown" in str(report.warnings)


def test_a_program_that_trains_for_less_than_a_second_is_captured_without_its_evaluations(tmp_path):
    body = """
evaluate = jax.jit(lambda w, x: jnp.cos(x @ w).mean())
float(evaluate(w, x))
for i in range(150):
    w, loss = update(w, x)
    float(loss)
    time.sleep(0.004)
    if i % 10 == 9:
        for _ in range(4):
            float(evaluate(w, x))
"""
    report, _ = captured(tmp_path, body)
    assert report.steps.count > 20
    assert "one call of update" in report.steps.note
    assert {row.name for row in report.phases} == {"other calls"}
    assert report.verdict.bound == "host" and "time.sleep" in report.verdict.sentence


@ANOTHER
def test_what_is_recorded_while_the_program_makes_its_data_is_recorded_again(tmp_path):
    body = (
        "made = sum(index * index for _ in range(200) for index in range(1_000_000))\n"
        "end = time.time() + 5\nwhile time.time() < end:\n    w, loss = update(w, x)\n    float(loss)\n"
    )
    report, done = captured(tmp_path, body)
    # It is told of once, however often it was recorded.
    assert done.stderr.count("recording a few seconds of whatever runs") == 1
    assert done.stderr.count("s by the clock; the analysis") == 1
    assert re.search(r"took [0-9.]+ m?s in \d+ recordings", done.stderr)
    assert report.steps.method == "inferred from calls of jitted functions"


@ANOTHER
def test_a_program_that_waits_for_python_is_callback_bound(tmp_path):
    body = """
import numpy as np, tpuprof
def host(x):
    time.sleep(0.02)
    return np.asarray(x)
@jax.jit
def step(w, x):
    w, loss = update(w, x)
    return w, jax.pure_callback(host, jax.ShapeDtypeStruct((), jnp.float32), loss)
for i in range(30):
    tpuprof.step(i)
    w, loss = step(w, x)
    loss.block_until_ready()
"""
    report, _ = captured(tmp_path, body)
    assert report.verdict.bound == "callback"
    assert "pure_callback" in report.verdict.sentence and "train.py:15" in report.verdict.sentence
    first = next(each for each in report.findings if each.status == "failed")
    assert first.rule == "host-blocked" and "train.py:15" in first.title


@ANOTHER
def test_compiles_are_counted_with_their_lines(tmp_path):
    body = (
        "import tpuprof\nfor i in range(40):\n    tpuprof.step(i)\n"
        "    w, loss = update(w, jnp.ones((100 + i, 128)))\n    float(loss)\n"
    )
    report, _ = captured(tmp_path, body)
    assert report.verdict.bound == "compile"
    assert any("train.py" in frame for row in report.compiles for frame in row.frames)
