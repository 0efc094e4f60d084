"""A traced script's Python runs, and nothing it writes, removes or sends reaches the user."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch_xla
ANOTHER = pytest.mark.slow("another real trace")

from tpuprof.errors import TpuprofError  # noqa: E402
from tpuprof.preflight import barrier  # noqa: E402
from tpuprof.preflight.script import ScriptRun, trace_script  # noqa: E402

START = """
import atexit, io, json, logging, os, pathlib, shutil, sqlite3, subprocess, sys, threading
import numpy, torch, torch_xla
import torch_xla.core.xla_model as xm
from torch import nn
device = torch_xla.device()
model = nn.Linear(32, 32).to(device)
optimizer = torch.optim.AdamW(model.parameters())
def train(each_step=lambda step: None, steps=40):
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(torch.ones(8, 32).to(device)).sum()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        print("step", step, flush=True)
        each_step(step)
here = pathlib.Path(sys.argv[1])
def save(step=0):
    torch.save(model.state_dict(), here / "model.pt")
"""
# Each line would change, remove or add a file below the planted folder. `expect` is what the script must see.
WRITERS = """
def check(what, right):
    assert right, what
log = open(here / "log.txt", "w"); log.write("new"); log.close()
check("log", open(here / "log.txt").read() == "new")
handle = os.open(here / "raw.bin", os.O_WRONLY | os.O_TRUNC); os.write(handle, b"new"); os.close(handle)
check("raw", (here / "raw.bin").read_bytes() == b"new")
(here / "path.txt").write_text("new"); io.open(here / "io.txt", "a").write("more")
os.chdir(here); open("relative.txt", "w").close(); check("relative", os.path.getsize("relative.txt") == 0)
torch.save(model, here / "model.pt"); xm.save(model.state_dict(), str(here / "xm.pt"))
check("load", set(torch.load(here / "xm.pt")) == {"weight", "bias"})
numpy.save(here / "array.npy", numpy.ones(3)); numpy.savez(here / "arrays.npz", a=numpy.ones(3))
numpy.memmap(here / "map.bin", "float32", "w+", shape=(4,))[:] = 1
os.remove(here / "old.txt"); check("removed", not (here / "old.txt").exists())
open(here / "new.txt", "w").close(); os.replace(here / "new.txt", here / "moved.txt")
check("moved", (here / "moved.txt").stat().st_size == 0)
shutil.rmtree(here / "output"); os.makedirs(here / "output" / "deep"); os.rmdir(here / "output" / "deep")
check("listed", os.listdir(here / "output") == [])
os.truncate(here / "cut.txt", 1); os.rename(here / "name.txt", here / "other.txt"); os.mkdir(here / "made")
shutil.copy(here / "path.txt", here / "copy.txt"); os.chmod(here / "mode.txt", 0o600)
logging.basicConfig(filename=here / "logging.txt", filemode="w", level="INFO", force=True); logging.info("new")
from torch.utils.tensorboard import SummaryWriter
SummaryWriter(here / "events").add_scalar("loss", 1.0, 0)
(here / "base.sqlite").unlink(); base = sqlite3.connect(here / "base.sqlite"); base.execute("create table t (x)"); base.commit(); base.close()
subprocess.run(["sh", "-c", f"echo new > {here}/child.txt; rm -r {here}/output2; truncate -s 0 {here}/io.txt"], check=True)
import multiprocessing
multiprocessing.get_context("fork").Process(target=lambda: (here / "fork.txt").write_text("new")).start()
"""
PLANTED = [
    "log.txt",
    "raw.bin",
    "path.txt",
    "io.txt",
    "relative.txt",
    "model.pt",
    "xm.pt",
    "array.npy",
    "arrays.npz",
    "map.bin",
    "old.txt",
    "moved.txt",
    "output/a/b.txt",
    "output2/c.txt",
    "cut.txt",
    "name.txt",
    "copy.txt",
    "mode.txt",
    "logging.txt",
    "base.sqlite",
    "child.txt",
    "fork.txt",
    "safe.safetensors",
]
KEPT = {
    "finally": "atexit.register(save)\ntry:\n    train()\nfinally:\n    save()",
    "except": "try:\n    train()\nexcept BaseException:\n    pass\nsave()",
    "thread": "each = threading.Thread(target=train); each.start(); each.join(); save()",
}
SAFETENSORS = """
from safetensors.torch import save_file
save_file({"a": torch.ones(3)}, here / "safe.safetensors")
"""


def plant(tmp_path: Path) -> Path:
    folder = tmp_path / "planted"
    for index, name in enumerate(PLANTED):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes([index]) * (100 + index))
    return folder


def state(folder: Path) -> dict[str, tuple[str, int, int]]:
    """Bytes, mode and time of change of everything below a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (content, path.stat().st_mode, path.stat().st_mtime_ns)
    return found


def run(tmp_path: Path, body: str, mode: str = "overlay"):
    planted = plant(tmp_path)
    before = state(planted)
    script = tmp_path / "train.py"
    script.write_text(START + body)
    trace = tmp_path / "trace"
    trace.mkdir()
    environment = {barrier.VARIABLE: mode}
    try:
        found = trace_script(ScriptRun(str(script), [str(planted)], environment), trace)
    except TpuprofError as error:
        pytest.fail(f"{error} {(trace / 'script.log').read_text()[-2000:]}")
    assert state(planted) == before
    return found, (trace / "script.log").read_text()


@ANOTHER
@pytest.mark.parametrize("ending", KEPT)
def test_no_way_of_ending_reaches_a_checkpoint(tmp_path, ending):
    found, log = run(tmp_path, KEPT[ending])
    assert found.sequence
    # The script stops where its graphs are known, long before its last step.
    assert log.count("step ") <= 6


def test_every_way_of_writing_seems_to_work_and_changes_nothing(tmp_path):
    found, log = run(tmp_path, WRITERS + (SAFETENSORS if _installed("safetensors") else "") + "train()")
    if found.barrier["files"] != "overlay":
        pytest.skip(f"this system has no overlay: {found.barrier}")
    assert found.is_steady, log


@ANOTHER
def test_landlock_refuses_every_way_of_writing(tmp_path):
    # Each line for itself, since each fails.
    lines = [each for each in WRITERS.splitlines() if each and "check" not in each and "import" not in each]
    body = f"""
for line in {lines!r}:
    try:
        exec(line)
    except Exception as error:
        print("refused", type(error).__name__, line)
train()
"""
    found, log = run(tmp_path, body, "landlock")
    if found.barrier["files"] != "landlock":
        pytest.skip(f"this system has no Landlock: {found.barrier}")
    assert log.count("refused PermissionError") >= 6
    assert found.is_steady


def test_without_a_barrier_the_script_does_not_run(tmp_path):
    code = (
        "import sys; from tpuprof.preflight import barrier; barrier._overlay = lambda *_: (False, 'no'); "
        "barrier._landlock = lambda _: False; barrier.main(sys.argv[1:])"
    )
    planted = plant(tmp_path)
    command = [sys.executable, "-c", code, str(tmp_path), "closed", "/bin/rm", "-r", str(planted)]
    assert subprocess.run(command, check=False).returncode == barrier.STATUS
    assert planted.exists()


@ANOTHER
def test_a_crash_after_the_first_step_reaches_no_checkpoint(tmp_path):
    planted = plant(tmp_path)
    before = state(planted)
    script = tmp_path / "train.py"
    script.write_text(START + "sys.excepthook = lambda *_: save()\ntrain(save, steps=1); 1 / 0")
    (tmp_path / "trace").mkdir()
    with pytest.raises(TpuprofError, match="before its step was known"):
        trace_script(ScriptRun(str(script), [str(planted)]), tmp_path / "trace")
    assert state(planted) == before


def _installed(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None


def test_the_network_is_closed_and_this_machine_is_not(tmp_path):
    body = """
import socket, urllib.request
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).close()
for attempt in (lambda: socket.create_connection(("192.0.2.1", 80), 5), lambda: urllib.request.urlopen("http://192.0.2.1/", timeout=5)):
    try:
        attempt()
    except OSError as error:
        print("refused", error)
    else:
        raise SystemExit("the network is open")
train()
"""
    found, log = run(tmp_path, body)
    assert found.is_steady
    assert log.count("refused") == 2


@ANOTHER
def test_the_barrier_leaves_nothing_behind(tmp_path):
    mounts = Path("/proc/self/mountinfo").read_text()
    run(tmp_path, "train()")
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert os.environ.get(barrier.VARIABLE) is None
