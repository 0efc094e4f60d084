"""A signal reaches the program once, whether it was sent to the capture alone or to its whole group."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests import scripts
from tpuprof.capture.launch import _reached
from tpuprof.capture.lookout import SAME_SECONDS, Lookout, on_the_lookout

# It notes each signal, and ends soon after the first one that came.
COUNTS = """
import os, signal, sys, time
got = []
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: got.append(number))
if "alone" in sys.argv:
    os.setpgid(0, 0)
print("ready", flush=True)
until = time.monotonic() + 60
while time.monotonic() < until:
    time.sleep(0.05)
    if got and until - time.monotonic() > 2:
        until = time.monotonic() + 0.8
print(*got)
"""


@pytest.mark.parametrize(
    ("send", "number", "arguments"),
    [
        (os.kill, signal.SIGINT, ()),
        (os.killpg, signal.SIGINT, ()),
        (os.killpg, signal.SIGTERM, ()),
        (os.killpg, signal.SIGINT, ("alone",)),
    ],
    ids=["to the capture", "to the group", "SIGTERM to the group", "to the capture's own group"],
)
def test_a_signal_reaches_the_program_once(tmp_path, send, number, arguments):
    """`kill -INT -GROUP` came twice: the second one broke the program's own `except KeyboardInterrupt: save()`."""
    script = scripts.write(tmp_path / "train.py", COUNTS)
    process = scripts.capture_begun(
        tmp_path / "run", sys.executable, script, *arguments, stderr=subprocess.DEVNULL
    )
    try:
        assert process.stdout.readline() == "ready\n"
        send(process.pid, number)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert out.split() == [str(int(number))]


def test_the_lookout_ends_with_the_capture():
    with on_the_lookout() as lookout:
        os.kill(lookout.pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(lookout.pid, 0)


def test_a_signal_of_the_group_that_comes_twice_is_one():
    """`timeout -s INT` signals its child, and then its group."""
    notes, write = os.pipe()
    lookout = Lookout(0, notes)
    os.write(write, bytes([signal.SIGINT]))
    assert lookout.came_to_group(signal.SIGINT)
    assert lookout.came_to_group(signal.SIGINT)
    assert not lookout.came_to_group(signal.SIGTERM)
    time.sleep(SAME_SECONDS)
    assert not lookout.came_to_group(signal.SIGINT)
    # It is gone.
    os.close(write)
    assert not lookout.came_to_group(signal.SIGINT)
    os.close(notes)


@pytest.mark.parametrize("terminal", [True, False])
def test_without_a_lookout_a_terminal_is_taken_to_signal_the_group(monkeypatch, terminal):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: terminal, raising=False)
    assert _reached(os.getpid(), signal.SIGINT, None) is terminal
    assert not _reached(os.getpid(), signal.SIGTERM, None)
