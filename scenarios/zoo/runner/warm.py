"""Bare runs without the wait for imports: a process that has imported torch_xla forks one child per program.

Imports take longer than most programs of the zoo train. What is captured is always a process of its own; bare runs and
cures, of which only output and the program's own clock are read, need not be. The runtime is initialised in the child.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path


class Nursery:
    """The process that forks; started at its first use."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None

    def run(self, folder: Path, changes: Mapping[str, str]) -> int:
        """Run `train.py` of a folder; its output is in `out.txt` and `err.txt` there. Returns the exit status."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        print(json.dumps([str(folder), dict(changes)]), file=process.stdin, flush=True)
        return int(process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, __file__], env=dict(self._environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip


def serve() -> None:
    """Fork for each line of stdin: `[folder, environment]`."""
    import torch
    import torch_xla
    import torch_xla.core.xla_model

    assert torch and torch_xla
    for row in sys.stdin:
        folder, changes = json.loads(row)
        child = os.fork()
        if child == 0:
            _become(Path(folder), changes)
        _child, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(folder: Path, changes: Mapping[str, str]) -> None:
    os.chdir(folder)
    os.environ.update(changes)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, "out.txt"), (2, "err.txt")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv, sys.path[0] = ["train.py"], str(folder)
    status = 0
    try:
        runpy.run_path("train.py", run_name="__main__")
    except SystemExit as ended:
        status = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    serve()
