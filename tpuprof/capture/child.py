"""Inside a program that `tpuprof capture` started: waits for torch_xla to be imported, then records.

What to do comes as JSON in the environment variable TPUPROF_CAPTURE, so that processes the program spawns
find it too.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from tpuprof.instrument.after_import import watch

VARIABLE = "TPUPROF_CAPTURE"
_WATCHED = ("torch_xla",)


@dataclass(frozen=True)
class Orders:
    """What the parent wants: where to, how much, and under what name."""

    run: str
    name: str
    warmup: int
    steps: int
    patience: int
    hlo_debug: bool
    source_lines: bool = False

    def to_environment(self) -> str:
        """The value of the environment variable."""
        return json.dumps(asdict(self))


def install() -> None:
    """Arrange for recording to be set up right after torch_xla has been imported."""
    orders = Orders(**json.loads(os.environ[VARIABLE]))
    watch(_WATCHED, lambda _: _record(orders))


def _record(orders: Orders) -> None:
    from tpuprof.capture.backend import choose_backend
    from tpuprof.capture.controller import Plan
    from tpuprof.capture.recorder import Recorder
    from tpuprof.instrument.state import import_xlac

    extension = import_xlac()
    if extension is None:
        say("torch_xla cannot be imported, so nothing is captured")
        return
    recorder = Recorder(
        Path(orders.run),
        Plan(warmup=orders.warmup, steps=orders.steps, patience=orders.patience),
        choose_backend(),
        extension,
        name=orders.name,
        steps_from_cuts=True,
        hlo_debug=orders.hlo_debug,
        source_lines=orders.source_lines,
        report=say,
    )
    atexit.register(recorder.close)
    _close_on_terminate(recorder)
    recorder.open()
    say("waiting for training to become steady")


def _close_on_terminate(recorder: Any) -> None:
    """Keep what was captured when the program is told to end, then let it end as it would have."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return  # the program has its own way to end, and atexit follows it

    def on_terminate(number: int, _frame: FrameType | None) -> None:
        recorder.close()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, on_terminate)


def say(text: str) -> None:
    """One line of progress on stderr, which the parent passes on."""
    print(f"tpuprof: {text}", file=sys.stderr, flush=True)
