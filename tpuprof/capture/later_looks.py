"""Where the training thread is after a recording by the clock, of a program in which no step was seen.

A recording holds a second or two. What such a program does every minute (an evaluation, a checkpoint) is in none, and
no step tells that it took longer. So a thread looks at the stack now and then until the program ends, and the analysis
compares the places with those of the recording.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from tpuprof.instrument.hidden_thread import HiddenThread
from tpuprof.instrument.stack_frames import user_frames
from tpuprof.instrument.state import note_failure
from tpuprof.instrument.thread_clocks import cpu_of_threads
from tpuprof.own_events import JAX_COMPILES, LOOK_COMPILES, LOOK_WAITS, LOOK_WORKS

# Time between two looks (s): see `long_steps.LOOK_EVERY_SECONDS`.
LOOK_EVERY_SECONDS = 0.1
# CPU time of the thread between two looks up to which it only waited (ns): a loop that waits for one program after the
# other takes more.
WAITED_NS = 200_000
# Stacks and stretches kept (count): about an hour of a program that evaluates for a second each ten.
MAX_STACKS, MAX_STRETCHES = 128, 4096
# Where JAX's Python waits for the device.
_WAITS = ("jax/_src/array.py", "jax/_src/api.py", "jax\\_src\\array.py", "jax\\_src\\api.py")


class LaterLooks:
    """Looks from `start` to `stop` at the thread that `thread` gives; `noted` is what was seen."""

    def __init__(
        self,
        thread: Callable[[], int],
        frames: Callable[[], dict[int, FrameType]] = sys._current_frames,
        cpu: Callable[[], dict[int, int]] = cpu_of_threads,
    ) -> None:
        self._choose, self._thread = thread, 0
        self._frames, self._cpu = frames, cpu
        self._stacks: dict[str, int] = {}
        # Stack, what the thread does there, and how many looks in a row saw it so.
        self._stretches: list[list[int]] = []
        self._looks, self._spent = 0, 0
        self._began = 0.0
        self._halt = threading.Event()

    def start(self) -> None:
        """Begin to look."""
        try:
            HiddenThread(self._run).start()
        except RuntimeError as error:
            note_failure("starting a thread", error)

    def stop(self) -> None:
        """Look no more."""
        self._halt.set()

    def noted(self) -> dict[str, Any]:
        """How often was looked, in how many seconds, at which stacks (`user_frames`, one text each), in which order.

        That is rows of a stack's number, what the thread does there (`own_events.LOOK_WORKS`), and how many looks in a
        row saw that. Empty where nobody looked.
        """
        if not self._looks:
            return {}
        return {
            "looks": self._looks,
            "seconds": time.monotonic() - self._began,
            "stacks": list(self._stacks),
            "stretches": [list(each) for each in self._stretches],
        }

    def look(self) -> None:
        """See where the thread is."""
        frame = self._frames().get(self._thread)
        if frame is None:
            return
        before, self._spent = self._spent, self._cpu().get(self._thread, 0)
        kind = _kind(frame, waited=self._spent - before <= WAITED_NS)
        stack = "\n".join(user_frames(frame))
        if stack not in self._stacks and len(self._stacks) >= MAX_STACKS:
            stack = ""
        row = [self._stacks.setdefault(stack, len(self._stacks)), kind]
        self._looks += 1
        if self._stretches and self._stretches[-1][:2] == row:
            self._stretches[-1][2] += 1
        elif len(self._stretches) < MAX_STRETCHES:
            self._stretches.append([*row, 1])
        else:
            self._halt.set()

    def _run(self) -> None:
        self._thread, self._began = self._choose(), time.monotonic()
        while not self._halt.wait(LOOK_EVERY_SECONDS):
            try:
                self.look()
            except Exception as error:
                note_failure("looking at the training thread", error)
                return


def _kind(frame: FrameType, *, waited: bool) -> int:
    """What a thread does that is there: `waited` says that it took hardly any CPU time."""
    if waited and frame.f_code.co_filename.endswith(_WAITS):
        return LOOK_WAITS
    # The frames of a stack that are kept may lack JAX's, behind those of libraries.
    outer: FrameType | None = frame
    while outer is not None:
        if JAX_COMPILES.search(outer.f_code.co_filename):
            return LOOK_COMPILES
        outer = outer.f_back
    return LOOK_WORKS
