"""Real processes that are watched and need no framework: they mark their steps themselves."""

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

# Watches itself and makes steps of a given length until a file appears; a minute at most.
TRAIN = """
import sys, time
from pathlib import Path
import tpuprof
from tpuprof.watch import status

folder, seconds, options = sys.argv[1], float(sys.argv[2]), eval(sys.argv[3])
status.WRITE_SECONDS, status.COMPARE_SECONDS = 0.3, 0.5
tpuprof.watch(folder, job="live", capture=False, **options)
number, end = 0, time.monotonic() + 60
while not Path(folder, "enough").exists() and time.monotonic() < end:
    tpuprof.step(number, samples=4)
    number += 1
    time.sleep(seconds)
"""


@contextmanager
def training(folder, seconds, rank=0, environment=None, **options):
    """A process that trains in the background until the body ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", TRAIN, str(folder), str(seconds), repr(options)],
        env={**os.environ, "RANK": str(rank), **(environment or {})},
    )
    try:
        yield process
    finally:
        folder.mkdir(exist_ok=True)
        (folder / "enough").touch()
        try:
            assert process.wait(60) == 0
        finally:
            process.kill()


def free_port():
    """A port of this machine that nothing listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def until(found, seconds=50):
    """What `found` returns as soon as that is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if answer := found():
            return answer
        time.sleep(0.2)
    raise AssertionError(f"nothing within {seconds} s: {found()}")
