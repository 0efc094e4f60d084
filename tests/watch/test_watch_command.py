"""`tpuprof watch -- COMMAND` on real scripts that know nothing of tpuprof."""

import json
import signal
import subprocess
import sys
import time

import pytest

from tests import scripts
from tpuprof.ledger.reader import read_folder

pytestmark = pytest.mark.torch_xla

KEY = "correct-horse-battery"
LOOP = """
import time
for index in range(int(sys.argv[1])):
    train(4 if index != 40 else 6); torch_xla.sync()
    time.sleep(0.01)
"""


def command(folder, code, *args, options=()):
    script = scripts.write(folder / "train.py", code)
    watch = [sys.executable, "-m", "tpuprof", "watch", "-o", str(folder / "runs"), "--job", "job", *options]
    return [*watch, "--", sys.executable, str(script), *map(str, args)]


def test_every_step_of_an_unchanged_script_is_in_the_ledger(tmp_path):
    done = subprocess.run(
        command(tmp_path, LOOP + "print('the end'); sys.exit(3)", 60, "--api-key", KEY),
        env=scripts.environment(), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stdout.strip() == "the end"
    assert "Traceback" not in done.stderr
    (ledger,) = read_folder(tmp_path / "runs")
    # The first step that can be seen begins where the first one ends.
    assert ledger.steps in (59, 60)
    assert ledger.ended == "exit"
    assert (ledger.columns["duration_ns"] >= 10_000_000).all()
    assert (ledger.columns["host_bytes"] > 2**20).all()
    compiles = [each for each in ledger.events if each["kind"] == "compile" and each["step"] >= 20]
    assert len(compiles) == 1
    assert any("train.py" in frame for frame in compiles[0]["frames"])
    # Every step ran a graph of as many ops, the one with another batch too.
    assert set(ledger.columns["graph_ops"][20:]) == {compiles[0]["ops"]}
    anomalies = [each for each in ledger.events if each["kind"] == "anomaly"]
    # On a busy machine slow steps may be reported and captured, too: before or after.
    busy = ("slow_step", "shift")
    assert [each["what"] for each in anomalies if each["what"] not in busy] == ["recompile"]
    verdicts = [
        json.loads(each.read_text()) for each in (tmp_path / "runs" / "captures").glob("*/verdict.json")
    ]
    compiled = f"step {compiles[0]['step']} compiled 1 graph"
    assert sum(each["first"].startswith(compiled) for each in verdicts) == 1
    assert ledger.meta["command"][-2:] == ["--api-key", "secret-1"]
    written = [each for each in (tmp_path / "runs").rglob("*") if each.is_file()]
    assert [each for each in written if KEY.encode() in each.read_bytes()] == []


@pytest.mark.slow("two more watched torch_xla programs")
def test_a_kill_loses_at_most_a_second_and_a_restart_goes_on(tmp_path):
    began = time.time()
    process = subprocess.Popen(
        command(tmp_path, LOOP, 100_000, options=["--no-captures"]), env=scripts.environment(),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    trainer = None
    for _ in range(600):
        time.sleep(0.2)
        found = list((tmp_path / "runs" / "ledgers").glob("*.tail"))
        ledgers = read_folder(tmp_path / "runs") if found else []
        if ledgers and ledgers[0].steps > 30:
            trainer = ledgers[0].meta["pid"]
            break
    assert trainer, "no steps were recorded"
    subprocess.run(["kill", f"-{signal.SIGKILL.value}", str(trainer)], check=True)
    killed = time.time()
    process.communicate(timeout=60)
    (ledger,) = read_folder(tmp_path / "runs")
    assert ledger.ended == ""
    # The load of a test machine stretches a second.
    assert killed - ledger.wall_ns(ledger.last_ns) / 1e9 < 5
    subprocess.run(
        command(tmp_path, LOOP, 30), env=scripts.environment(), capture_output=True, timeout=300, check=False
    )
    ended = time.time()
    done = subprocess.run(
        [sys.executable, "-m", "tpuprof", "goodput", str(tmp_path / "runs"), "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    (job,) = json.loads(done.stdout)["jobs"]
    assert [each["ended"] for each in job["attempts"]] == [None, "exit"]
    assert sum(job["seconds"].values()) == pytest.approx(job["wall_seconds"], rel=1e-9)
    assert began <= job["start_seconds"]
    assert job["start_seconds"] + job["wall_seconds"] <= ended
    # The script numbers no steps and saves none: what was done again is unknown.
    assert job["wasted_steps"] == 0
    assert any("unknown which steps" in note for note in job["notes"])
