"""Odd ways to start a program under capture: the hook reaches it, and the program finds all as it would without."""

import ast
import json
import os
import re
import subprocess
import sys

import pytest

from tpuprof.capture import crumbs, launch, marker
from tpuprof.capture.command import isolating_python
from tpuprof.capture.nothing import explain, last_error
from tpuprof.capture.orders import Orders

SHOW = """
import json, sys
print(json.dumps([sys.argv, sys.path, __name__, globals().get("__file__"), sorted(sys.modules["__main__"].__dict__)]))
"""


def orders(folder):
    return Orders(str(folder / "run"), "one", 3, 8, 100, True)


@pytest.fixture
def start(tmp_path, monkeypatch, capfd):
    """Starts a command under capture in a folder of its own; how it ended, and its stdout."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)

    def run(*command):
        ended = launch.run([str(word) for word in command], orders(tmp_path))
        out, err = capfd.readouterr()
        return ended, out, err

    return run


def message(command, folder, ended):
    return str(explain([str(word) for word in command], orders(folder), ended))


def hooked(ended):
    return [each.last(crumbs.STARTED) is not None for each in ended.processes]


def script(folder, code=SHOW):
    path = folder / "train.py"
    path.write_text(code)
    return path


@pytest.mark.parametrize(
    "options", [[], ["-I"], ["-E"], ["-u", "-E", "-X", "utf8"], ["-W", "ignore", "-IB"], ["-P"]]
)
def test_a_script_sees_what_it_would_see_without(start, tmp_path, options):
    command = [sys.executable, *options, script(tmp_path).name, "--epochs", "2"]
    ended, out, _ = start(*command)
    assert hooked(ended) == [True]
    plain = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(out) == json.loads(plain.stdout)


@pytest.mark.parametrize("isolated", [[], ["-E"]])
def test_modules_and_code_see_it_too(start, tmp_path, isolated):
    script(tmp_path)
    for rest in (["-m", "train", "a"], ["-c", SHOW, "b"]):
        command = [sys.executable, *isolated, *rest]
        ended, out, _ = start(*command)
        assert hooked(ended) == [True]
        plain = subprocess.run(command, capture_output=True, text=True, check=True)
        assert json.loads(out)[:4] == json.loads(plain.stdout)[:4]


def test_the_traceback_of_an_isolated_script_is_its_own(start, tmp_path):
    ended, _, err = start(
        sys.executable, "-I", script(tmp_path, "def train():\n    raise ValueError('bad')\ntrain()\n")
    )
    assert ended.status == 1
    assert "start.py" not in err
    assert err.count("train.py") == 2
    assert last_error(ended.stderr_tail) == "ValueError: bad"
    long = last_error(ended.stderr_tail.replace(b"bad", b"bad " * 200))
    assert len(long) < 300 and long.endswith("…")


CHILDREN = """
import multiprocessing, os, subprocess, sys
def work():
    print("child", os.getpid(), flush=True)
if __name__ == "__main__":
    for method in ("fork", "spawn"):
        process = multiprocessing.get_context(method).Process(target=work)
        process.start(); process.join()
    subprocess.run([sys.executable, "-c", "pass"])
    os.system(f"{sys.executable} -c pass")
    print("ENV", sorted(name for name in os.environ if name.startswith(("TPUPROF", "XLA", "PT_XLA", "PYTHON"))))
"""


def test_children_are_reached_and_nothing_else_is_in_their_environment(start, tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith(("XLA", "PT_XLA", "PYTHON", "TPUPROF"))]:
        monkeypatch.delenv(name)
    ended, out, err = start("sh", "-c", f"{sys.executable} {script(tmp_path, CHILDREN)}")
    # The program, the spawned process and its resource tracker, and two subprocesses; a forked one starts no Python.
    assert len(ended.processes) == 5
    assert err == ""
    assert "ENV ['PYTHONPATH', 'TPUPROF_CAPTURE']" in out


def test_the_users_own_sitecustomize_and_its_errors(start, tmp_path, monkeypatch):
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text(
        "import os\nos.environ['OWN'] = __file__\nraise ValueError('their mistake')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(own))
    code = "import os, sys; print(os.environ['OWN'])"
    ended, out, err = start(sys.executable, "-c", code)
    assert hooked(ended) == [True]
    assert out.strip() == str(own / "sitecustomize.py")
    assert "Error in sitecustomize" in err
    assert "ValueError: their mistake" in err
    assert "tpuprof" not in err


def test_nothing_heavy_is_imported_before_torch_xla(start):
    command = [sys.executable, "-c", "import sys; print(*sys.modules)"]
    ended, out, _ = start(*command)
    assert hooked(ended) == [True]
    # What the installation itself imports at every start (an editable one does) is not ours.
    without = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert not (set(out.split()) - set(without.split())) & {
        "json",
        "dataclasses",
        "pathlib",
        "torch",
        "numpy",
        "logging",
        "tempfile",
        "inspect",
    }


def test_found_by_ancestry_where_the_environment_is_cleared(tmp_path, monkeypatch):
    folder = marker.create()
    try:
        orders(tmp_path).write(folder)
        code = "from tpuprof.capture import marker; print(marker.folder_of_ancestor())"
        root = str(launch.HOOK.parents[2])
        shell = f"cd {root} && env -i {sys.executable} -c '{code}'; true"
        done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == str(folder)
        assert os.stat(folder).st_mode & 0o077 == 0
        (folder.parent / folder.name).chmod(0o777)
        done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "None"  # others could have written there
    finally:
        marker.remove(folder, keep=False)
    assert marker.folder_of_ancestor() is None
    assert not folder.exists()


def start_line():
    """What the wheel's .pth file holds."""
    setup = launch.HOOK.parents[2] / "setup.py"
    (value,) = re.findall(r"START_LINE = (\(.*?\n\))", setup.read_text(), re.DOTALL)
    return ast.literal_eval(value)


AT_START = """
import sys
sys.path.append({root!r})
exec({line!r})
print("tpuprof.capture.injected" in sys.modules)
"""


def test_the_pth_line_reaches_a_program_without_environment_and_no_other(start, tmp_path):
    code = AT_START.format(root=str(launch.HOOK.parents[2]), line=start_line())
    path = script(tmp_path, code)
    assert start_line().count("\n") == 1
    assert start_line().startswith("import ")
    for command in ((sys.executable, "-E"), ("env", "-i", sys.executable)):
        ended, out, err = start("sh", "-c", f"{' '.join(command)} {path}; true")
        assert (out, err) == ("True\n", "")
        assert hooked(ended) == [True]
    plain = subprocess.run(["env", "-i", sys.executable, path], capture_output=True, text=True, check=True)
    assert (plain.stdout, plain.stderr) == ("False\n", "")


ABORT = "import os; os.abort()"
RAISE = "raise RuntimeError('no such file: data.bin')"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ([sys.executable, "-c", "pass"], ["never imported torch_xla", "[capture-empty]"]),
        (
            [sys.executable, "-c", ABORT],
            ["SIGABRT ended the program", "once without tpuprof", "[capture-program-failed]"],
        ),
        (["sh", "-c", f"{sys.executable} -c '{ABORT}'; exit $?"], ["exit status 134, as after SIGABRT"]),
        ([sys.executable, "-c", RAISE], ["exit status 1 (RuntimeError: no such file: data.bin)"]),
        (
            [sys.executable, "-c", "raise SystemExit(5)"],
            ["exit status 5; the program never imported torch_xla"],
        ),
        (["true"], ["no Python that can be hooked ran", "[capture-empty]"]),
        (["env", "-i", "/bin/true"], ["env clears the environment"]),
        (["env", "-u", "PYTHONPATH", "/bin/true"], ["changes PYTHONPATH", "Install tpuprof by pip"]),
        (["env", "PYTHONPATH=src", "/bin/true"], ["changes PYTHONPATH"]),
    ],
)
def test_what_happened_is_said(start, tmp_path, command, expected):
    ended, _, _ = start(*command)
    text = message(command, tmp_path, ended)
    assert all(each in text for each in expected), text
    assert "older" not in text


def test_an_older_capture_in_the_folder_is_not_taken_for_this_one(start, tmp_path):
    (tmp_path / "run" / "plugins" / "profile" / "yesterday").mkdir(parents=True)
    ended, _, _ = start(sys.executable, "-c", "pass")
    assert "What is in this folder is older" in message([sys.executable], tmp_path, ended)


def test_a_program_of_another_framework_is_named(start, tmp_path):
    (tmp_path / "jax.py").write_text("")
    ended, _, _ = start(sys.executable, "-c", "import jax")
    assert "jax was imported, but compiled no program and marked no step" in message(
        [sys.executable], tmp_path, ended
    )


def test_processes_that_go_on_in_the_background(start, tmp_path):
    ended, _, _ = start("sh", "-c", f"{sys.executable} -c 'input()' < {_fifo(tmp_path)} 2>&- & sleep 1")
    try:
        assert len(ended.alive) <= 1
        if ended.alive:
            assert "1 process that it started still runs" in message(["sh"], tmp_path, ended)
    finally:
        os.close(os.open(tmp_path / "fifo", os.O_RDWR | os.O_NONBLOCK))


def test_a_program_that_failed_is_said_to_have_failed_where_a_process_of_it_still_runs(tmp_path):
    """Of two ranks one was aborted, and the other waits for it."""
    few = crumbs.Process(1, [(crumbs.IMPORTED, "torch_xla"), (crumbs.STEPS, "1")])
    ended = launch.Ended(1, b"Traceback (most recent call last):\nBroken: pool\n", processes=[few], alive=[1])
    said = message(["python"], tmp_path, ended)
    assert "failed with exit status 1 (Broken: pool)" in said
    assert "1 process that it started still runs" in said
    assert "foreground" not in said


def _fifo(folder):
    os.mkfifo(folder / "fifo")
    return folder / "fifo"


def test_names_in_notes_are_escaped(tmp_path):
    crumbs.leave(str(tmp_path), crumbs.STARTED, "evil\x1b[2J\nname\tvalue")
    crumbs.leave(str(tmp_path / "gone"), crumbs.STARTED, "x")
    (process,) = crumbs.read(str(tmp_path))
    assert process.last(crumbs.STARTED) == "evil\\x1b[2J\\nname\\tvalue"
    assert process.last(crumbs.STEPS) is None
    assert process.count(crumbs.STEPS) == 0


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python train.py", 0),
        ("python3.11 -I train.py", 2),
        ("/usr/bin/python -u -E -X dev train.py -I", 5),
        ("python -m pkg -I", 0),
        ("python -s -m pkg", 0),
        ("python -Es -m pkg", 2),
        ("python -Im pkg", 0),
        ("python -W ignore::I train.py", 0),
        ("python -I", 0),
        ("python -E -", 0),
        ("pythonic -I train.py", 0),
        ("torchrun -I train.py", 0),
    ],
)
def test_a_python_that_ignores_its_environment_is_recognised(command, words):
    assert isolating_python(command.split()) == words


def test_a_recording_that_was_lost_is_not_called_too_few_steps(tmp_path):
    lost = crumbs.Process(1, [(crumbs.IMPORTED, "torch_xla"), (crumbs.STEPS, "11"), (crumbs.CAPTURED, "8")])
    said = message(["python"], tmp_path, launch.Ended(0, b"", processes=[lost]))
    assert "steps were recorded, but the recording was not written to its end" in said
    assert "the program ended after" not in said


@pytest.mark.parametrize(
    ("crumb", "alive", "lost"),
    [
        ([], [], True),
        ([(crumbs.RECORDING, "0")], [], False),
        ([(crumbs.ENDED, "")], [], False),
        ([], [1], False),
    ],
)
def test_a_program_that_leaves_while_it_is_recorded(tmp_path, crumb, alive, lost):
    """It came to more steps than it said last: it says so at 1, 2, 4, 8 and so on."""
    left = [(crumbs.IMPORTED, "torch_xla"), (crumbs.STEPS, "16"), (crumbs.RECORDING, "1"), *crumb]
    for status in (0, 3):
        ended = launch.Ended(status, b"", processes=[crumbs.Process(1, left)], alive=alive)
        said = message(["python"], tmp_path, ended)
        assert ("left in the middle of a recording after at least 16 training steps" in said) is lost
        assert ("os._exit" in said) is lost


def test_a_recording_that_came_to_no_step_is_too_few_steps(tmp_path):
    few = crumbs.Process(1, [(crumbs.IMPORTED, "torch_xla"), (crumbs.STEPS, "3")])
    said = message(["python"], tmp_path, launch.Ended(0, b"", processes=[few]))
    assert "ended after 3 training steps, and a capture needs one more after it has begun" in said


@pytest.mark.parametrize(("calls", "compiled"), [(60, True), (5, False), (0, False)])
def test_steps_that_torch_compile_runs_whole_are_to_be_marked(tmp_path, calls, compiled):
    """The plan asks for 3 steps before it records, and 2 are left by the first call, which traces."""
    few = crumbs.Process(
        1, [(crumbs.IMPORTED, "torch_xla"), (crumbs.STEPS, "2"), (crumbs.COMPILED_CALLS, str(calls))]
    )
    said = message(["python"], tmp_path, launch.Ended(0, b"", processes=[few]))
    assert ("functions of torch.compile ran 60 graphs, and 2 training steps ended" in said) is compiled
    assert ("Train for more steps" in said) is not compiled
