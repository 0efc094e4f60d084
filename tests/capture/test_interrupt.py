"""A program that an interrupt ended still ends by the signal, though code was run from text as it ended."""

import signal
import subprocess
import sys

import pytest

# Python calls what was registered last first.
BEGIN = """
import atexit
from tpuprof.capture.interrupt import keep_interrupt
atexit.register(keep_interrupt)
atexit.register(exec, "forgets = 1")
"""
CAUGHT = "try:\n    raise KeyboardInterrupt\nexcept KeyboardInterrupt:\n    pass"


def ends(lines):
    return subprocess.run([sys.executable, "-c", BEGIN + lines], check=False, capture_output=True, text=True)


def test_an_interrupt_that_nobody_caught_ends_by_the_signal():
    ended = ends("raise KeyboardInterrupt")
    assert ended.returncode == -signal.SIGINT
    assert ended.stderr.count("KeyboardInterrupt\n") == 1


@pytest.mark.parametrize(
    ("lines", "status"),
    [("", 0), (CAUGHT, 0), (CAUGHT + "\nraise SystemExit(7)", 7), ("raise ValueError", 1)],
    ids=["nothing", "caught", "its own status", "another error"],
)
def test_other_ends_stay(lines, status):
    assert ends(lines).returncode == status


def test_a_module_that_is_run_ends_without_the_signal(tmp_path):
    (tmp_path / "trains.py").write_text(BEGIN + "raise KeyboardInterrupt")
    (tmp_path / "bare.py").write_text("raise KeyboardInterrupt")
    bare, ours = (
        subprocess.run(
            [sys.executable, "-m", name], cwd=tmp_path, check=False, capture_output=True
        ).returncode
        for name in ("bare", "trains")
    )
    assert ours == bare
