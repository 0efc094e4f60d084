"""`tpuprof prove` on programs that sleep: what they take is known."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.tables.test_tables import trained
from tpuprof.errors import TpuprofError
from tpuprof.model.proof_notes import read_proofs
from tpuprof.prove.program import Program
from tpuprof.prove.readings import LOSS, STEP_MS, WARMUP_STEPS, last_number, losses_agree, steps_of
from tpuprof.prove.timing import BY_CLOCK, BY_METRIC, BY_PROGRAM, BY_STEPS, Reading, timed

# A program that takes its steps and says what they took, as a training script does.
SLEEPER = """
import sys, time
ms, loss = float(sys.argv[1]), sys.argv[2]
began = time.perf_counter()
for step in range(4):
    time.sleep(ms / 4e3)
print("step_ms:", (time.perf_counter() - began) * 1e3)
print("epoch 1 loss", loss)
"""


@pytest.fixture
def sleeper(tmp_path):
    path = tmp_path / "sleeper.py"
    path.write_text(SLEEPER)
    return lambda ms, loss="1.5": f"{sys.executable} {path} {ms} {loss}"


def prove(tmp_path, before, after, *more):
    words = [
        "prove",
        *more,
        "--before",
        before,
        "--after",
        after,
        "-o",
        str(tmp_path / "run"),
        "--no-capture",
    ]
    return subprocess.run(
        [sys.executable, "-m", "tpuprof", *words, "--json", "--blocks", "4"],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_saving_is_confirmed_and_kept(sleeper, tmp_path):
    done = prove(tmp_path, sleeper(200), sleeper(100), "device-to-host-sync", "--budget", "2m")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["outcome"] == "confirmed"
    assert found["read_from"] == BY_PROGRAM
    assert found["saving_low_ms"] <= 100 * 1.2
    assert found["saving_high_ms"] >= 100 * 0.8
    (kept,) = read_proofs(tmp_path / "run")
    assert (kept.rule, kept.outcome) == ("device-to-host-sync", "confirmed")


ANOTHER = pytest.mark.slow("another whole proof")


@pytest.mark.parametrize("ms", [20, *(pytest.param(ms, marks=ANOTHER) for ms in (40, 60, 80, 100))])
def test_pairs_that_change_nothing_are_not_confirmed(sleeper, tmp_path, ms):
    done = prove(tmp_path, sleeper(ms), sleeper(ms))
    assert done.returncode in (1, 4), done.stdout
    assert json.loads(done.stdout)["outcome"] in ("refuted", "undecided")
    assert "both programs are the same command" in done.stderr


def test_other_losses_decide_nothing(sleeper, tmp_path):
    done = prove(tmp_path, sleeper(40, "1.5"), sleeper(10, "2.5"))
    assert done.returncode == 4
    assert "losses differ" in json.loads(done.stdout)["sentence"]


def test_a_loss_that_is_no_number_decides_nothing_and_is_kept_as_unknown(sleeper, tmp_path):
    done = prove(tmp_path, sleeper(40, "nan"), sleeper(10, "1.5"))
    assert done.returncode == 4, done.stderr
    found = json.loads(done.stdout)
    assert "losses differ (nan before" in found["sentence"]
    assert found["losses"] == [None, 1.5]


@pytest.mark.parametrize("before", [" ", "python 'a.py"])
def test_what_is_no_command_is_refused(tmp_path, before):
    done = prove(tmp_path, before, "python b.py")
    assert done.returncode == 2
    assert done.stderr.rstrip().endswith("[usage]")


def test_a_proof_is_kept_on_this_machine(sleeper, tmp_path):
    words = ["prove", "--before", sleeper(1), "--after", sleeper(1), "-o", "gs://bucket/run"]
    done = subprocess.run(
        [sys.executable, "-m", "tpuprof", *words], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 2
    assert "needs a folder on this machine" in done.stderr
    assert not (tmp_path / "gs:").exists()


# It starts a process of its own, notes both, and runs until it is ended.
ENDLESS = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open(sys.argv[1] + ".new", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
"""


def ended(pid):
    """Whether a process is gone, or waits for its parent to notice that it ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def waited_for(fact):
    for _ in range(600):
        if fact():
            return True
        time.sleep(0.1)
    return False


# `python -m tpuprof` as a terminal starts it: a shell's background job ignores Ctrl-C, and so does all that it starts.
HEEDS_CTRL_C = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("tpuprof", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    ("number", "more"),
    [(signal.SIGTERM, "--no-capture"), (signal.SIGHUP, "--no-capture"), (signal.SIGINT, "--no-capture"),
     (signal.SIGTERM, "--capture")],
)  # fmt: skip
def test_a_proof_that_is_ended_leaves_no_program_behind(tmp_path, number, more):
    script, noted, scratch = tmp_path / "endless.py", tmp_path / "noted", tmp_path / "scratch"
    script.write_text(ENDLESS)
    scratch.mkdir()
    command = f"{sys.executable} {script} {noted}"
    words = ["prove", "--before", command, "--after", command, "-o", str(tmp_path / "run"), more]
    proof = subprocess.Popen(
        [sys.executable, "-c", HEEDS_CTRL_C, *words],
        env={**os.environ, "TMPDIR": str(scratch)},
        stderr=subprocess.DEVNULL,
    )
    assert waited_for(noted.exists)
    program, child = noted.read_text().split()
    proof.send_signal(number)
    assert proof.wait(60) == 128 + number
    assert waited_for(lambda: ended(program))
    if more == "--capture":
        # A capture passes the signal on to the program, which has to end what it started.
        os.kill(int(child), signal.SIGKILL)
    else:
        assert list(scratch.iterdir()) == []
    assert waited_for(lambda: ended(child))


def test_each_fix_is_captured_in_a_folder_of_its_own(tmp_path):
    from tpuprof.cli.prove import _after

    run = tmp_path / "run"
    assert _after(run) == tmp_path / "run-after"
    (tmp_path / "run-after").mkdir()
    assert _after(run) == tmp_path / "run-after-2"
    assert _after(run / ".." / "run") == tmp_path / "run-after-2"


def test_a_program_that_fails_is_named(tmp_path):
    done = prove(tmp_path, f"{sys.executable} -c 'raise SystemExit(7)'", f"{sys.executable} -c 1")
    assert done.returncode == 2
    assert "status 7" in done.stderr
    assert done.stderr.rstrip().endswith("[prove-program-failed]")


def test_what_times_are_read_from(sleeper):
    import shlex

    command = Program(shlex.split(sleeper(8)))
    assert timed(command, 60, Reading()).read_from == BY_PROGRAM
    assert timed(command, 60, Reading(measure="total")).read_from == BY_CLOCK
    found = timed(command, 60, Reading(metric=r"epoch (\d+)"))
    assert (found.ms, found.read_from, found.loss) == (1.0, BY_METRIC, 1.5)
    with pytest.raises(TpuprofError, match="prove-program-failed"):
        timed(command, 60, Reading(metric="nothing (x)"))


def test_a_program_without_end_is_ended():
    with pytest.raises(TpuprofError, match="was ended"):
        timed(Program([sys.executable, "-c", "import time; time.sleep(600)"]), 1.0, Reading())


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        ("loss 2.5", 2.5), ("loss: 2.5\nloss: 1.25", 1.25), ("train_loss=1e-3", 1e-3), ('{"loss": 0.5}', 0.5),
        ("Loss=nan", float("nan")), ("no number", None), ("lossless 3", None),
    ],
)  # fmt: skip
def test_losses_are_read_as_programs_print_them(text, loss):
    found = last_number(LOSS, text)
    assert found == loss or (found != found and loss != loss)


def test_printed_step_times():
    assert last_number(STEP_MS, 'SCENARIO {"step_ms": 12.5, "steps": 120}') == 12.5


def test_steps_that_were_noted(tmp_path):
    rows = [{"wall_ns": 5_000_000_000}] * 4 + [{"wall_ns": 2_000_000}] * 8
    path = tmp_path / "tpuprof" / "telemetry.a.0.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "{broken\n")
    found = steps_of(tmp_path)
    assert (found.mean_ms, found.count) == (2.0, 8)
    assert steps_of(tmp_path, warmup=6) is None


# Its layers cut the graph, so cuts come before the first call of the optimizer. Prints neither time nor loss.
CUTS_IN_THE_STEP = """
import torch, torch_xla
device = torch_xla.device()
layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(5)).to(device)
optimizer = torch.optim.SGD(layers.parameters(), 0.1)
data = torch.ones(2, 4, device=device)
for step in range(20):
    values = data
    for layer in layers:
        values = layer(values)
        torch_xla.sync()
    values.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync(wait=True)
"""


def test_cuts_before_the_first_update_are_no_steps(tmp_path):
    pytest.importorskip("torch_xla")
    script = tmp_path / "cuts.py"
    script.write_text(CUTS_IN_THE_STEP)
    program = Program([sys.executable, str(script)], variables={"PJRT_DEVICE": "CPU"})
    found = timed(program, 120, Reading())
    assert (found.read_from, found.steps) == (BY_STEPS, 20 - WARMUP_STEPS)


def test_losses_within_the_runs_own_spread_agree():
    assert losses_agree([1.0, 1.2], [1.15, 1.15], 0.0)
    assert not losses_agree([1.0, 1.01], [1.2, 1.2], 0.01)


def test_losses_that_the_fix_itself_spreads_do_not_agree():
    assert not losses_agree([2.0, 2.0], [2.5, 4.0], 0.01)


@pytest.mark.parametrize("printed", ["0", "1e999"])
def test_a_time_that_no_run_can_take_is_none(printed):
    command = Program([sys.executable, "-c", f"print('step_ms: {printed}')"])
    assert timed(command, 60, Reading()).read_from == BY_CLOCK
    with pytest.raises(TpuprofError, match="no number above zero"):
        timed(command, 60, Reading(metric=STEP_MS))


def test_the_proof_is_shown_beside_the_finding(samples, tmp_path):
    import shutil

    run = tmp_path / "run"
    shutil.copytree(samples / "recompile_shapes", run)
    proof = {
        "schema": "tpuprof.prove/1", "rule": "recompiles-shape", "outcome": "confirmed", "sentence": "Confirmed: <b>saved</b>.",
        "read_from": "its steps", "pairs": 6, "before_ms": 10.0, "after_ms": 8.0, "saving_ms": 2.0, "saving_low_ms": 1.5,
        "saving_high_ms": 2.5, "predicted_low_ms": 0.0, "predicted_high_ms": 3.0, "finding_after": "passed",
        "made_at": "2026-01-01T00:00:00+00:00",
    }  # fmt: skip
    import tpuprof

    assert tpuprof.open(run).finding("recompiles-shape").proofs == []
    (run / "prove").mkdir()
    (run / "prove" / "a.json").write_text(json.dumps(proof))
    (run / "prove" / "b.json").write_text("{}")
    opened = tpuprof.open(run)
    (shown,) = opened.finding("recompiles-shape").proofs
    assert (shown.outcome, shown.saving_ms, shown.pairs) == ("confirmed", 2.0, 6)
    for suffix, text in ((".html", "Tried:"), (".md", "Tried:"), (".json", "confirmed")):
        opened.save(tmp_path / f"r{suffix}")
        assert text in (tmp_path / f"r{suffix}").read_text()
    assert "<b>saved" not in (tmp_path / "r.html").read_text()
    again = tpuprof.open(tmp_path / "r.json").finding("recompiles-shape").proofs
    assert [each.outcome for each in again] == ["confirmed"]
    done = subprocess.run(
        [sys.executable, "-m", "tpuprof", "analyze", str(run)], capture_output=True, text=True, check=True
    )
    assert "Tried: Confirmed" in done.stdout


def test_a_run_without_proofs_has_none(tmp_path):
    trained().write(tmp_path / "a.xplane.pb")
    assert read_proofs(tmp_path) == read_proofs(None) == []
