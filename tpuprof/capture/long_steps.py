"""Where the training thread is in steps after the capture that take far longer than their like.

A capture holds a few steps. What a program does every hundredth step (an evaluation, pictures, a checkpoint) is in none
of them. So a thread looks now and then whether the step under way takes longer than usual, and only then at the stack.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tpuprof.instrument.hidden_thread import HiddenThread
from tpuprof.instrument.stack_frames import user_frames
from tpuprof.instrument.state import note_failure
from tpuprof.run_folder import CLASSES_PER_DOUBLING
from tpuprof.units import US_PER_S

# How many times as long as the usual step one takes that counts as long (ratio): noise does not make twice of it.
LONG_FROM = 2.0
# From where on a step is looked at (ratio to the usual one): what comes first in it is what it has besides the usual.
LATE_FROM = 1.25
# Share of the usual step below which one is so short that the host runs ahead of the device in it (ratio): a step
# beside it waits for both. One in ten is with XLA's CPU client. A judgement.
AHEAD_BELOW = 0.5
# Time between two looks (s), and while a step takes longer than usual: for each look the training thread may have to
# let go of Python's lock, which took up to 0.2 ms (benchmarks/looks_at_long_steps.py). Ten per second are 0.2 % of a
# program that never lets go of it by itself.
LOOK_EVERY_SECONDS, CLOSELY_SECONDS = 0.1, 0.02
# Stacks kept of one step (samples), different stacks and step numbers kept in all (count).
MAX_SAMPLES, MAX_STACKS, MAX_NUMBERS = 256, 64, 64
# Steps from which it is known what is usual (steps).
KNOWN_FROM = 16


@dataclass
class LongSteps:
    """Steps that took `LONG_FROM` times as long as the usual ones, among those that could be `judged`.

    Steps that compile are not. `seconds` is the time of the long steps, without what they wait for steps beside them
    that are far shorter than usual, as the host ran ahead in these. `judged_seconds` is the time of all judged steps,
    and `usual_seconds` what the usual step takes (s). `numbers` are those of the first long steps. `stacks` says how
    often each stack was seen in long steps, after the usual time was over; frames are lines of a text, as in
    `user_frames`.
    """

    judged: int = 0
    judged_seconds: float = 0.0
    usual_seconds: float = 0.0
    steps: int = 0
    seconds: float = 0.0
    numbers: list[int] = field(default_factory=list)
    stacks: dict[str, int] = field(default_factory=dict)


class LongStepWatch:
    """Fed with the ends of steps by the training thread; looks at it from a thread of its own from `start` to `stop`.

    `began` gives the time at which the step under way began (`time.monotonic`, s).
    """

    def __init__(self, found: LongSteps, began: Callable[[], float]) -> None:
        self._found = found
        self._began = began
        self._thread = 0
        # By how much the last steps were shorter than usual (s): the host runs ahead of the device.
        self._ahead = 0.0
        # Number, time (s) and stacks of the last step, if it seems long.
        self._open: tuple[int, float, list[str]] | None = None
        self._samples: list[tuple[float, str]] = []
        self._halt = threading.Lock()

    def start(self) -> None:
        """Begin to look."""
        self._halt.acquire()
        try:
            HiddenThread(self._run).start()
        except RuntimeError as error:
            self._halt.release()
            note_failure("starting a thread", error)

    def stop(self) -> None:
        """Look no more."""
        if self._halt.locked():
            self._halt.release()

    def step_ended(self, number: int, began: float, now: float, *, compiled: bool) -> None:
        """Step `number` ran from `began` to `now` (s), in the calling thread."""
        self._thread = threading.get_ident()
        samples = self._taken(now) if self._samples else []
        found, took = self._found, now - began
        usual = found.usual_seconds
        if not usual or compiled:
            self.settle()
            return
        found.judged += 1
        found.judged_seconds += took
        shorter = usual - took if took < AHEAD_BELOW * usual else 0.0
        self.settle(shorter)
        ahead, self._ahead = self._ahead, self._ahead + shorter if shorter else 0.0
        if took - ahead >= LONG_FROM * usual:
            self._open = number, took - ahead, [stack for at, stack in samples if at > began]

    def settle(self, shorter: float = 0.0) -> None:
        """Count the step that seemed long, if it was: the one behind it was shorter than usual by so much (s)."""
        if self._open is None:
            return
        (number, took, samples), self._open = self._open, None
        found, took = self._found, took - shorter
        if took < LONG_FROM * found.usual_seconds:
            return
        found.steps += 1
        found.seconds += took
        if len(found.numbers) < MAX_NUMBERS:
            found.numbers.append(number)
        for stack, times in Counter(samples).items():
            if stack in found.stacks or len(found.stacks) < MAX_STACKS:
                found.stacks[stack] = found.stacks.get(stack, 0) + times

    def know(self, lengths: dict[int, int]) -> None:
        """Note what is usual: the median of steps by classes of their lengths (`run_folder.CLASSES_PER_DOUBLING`)."""
        steps = sum(lengths.values())
        if steps < KNOWN_FROM:
            return
        before = 0
        for length in sorted(lengths):
            before += lengths[length]
            if 2 * before >= steps:
                self._found.usual_seconds = math.exp2(length / CLASSES_PER_DOUBLING) / US_PER_S
                return

    def look(self) -> bool:
        """See where the training thread is, if its step takes longer than usual; whether it does, and was seen."""
        usual, now = self._found.usual_seconds, time.monotonic()
        late = LATE_FROM * usual + self._ahead
        if not usual or now - self._began() < late or len(self._samples) >= MAX_SAMPLES:
            return False
        frame = sys._current_frames().get(self._thread)
        if frame is not None:
            self._samples.append((now, "\n".join(user_frames(frame))))
        return frame is not None

    def _taken(self, until: float) -> list[tuple[float, str]]:
        """The samples until that time, which are no longer kept."""
        samples = self._samples
        count = sum(at <= until for at, _ in samples)
        taken = samples[:count]
        del samples[:count]
        return taken

    def _run(self) -> None:
        late = False
        while not self._halt.acquire(timeout=CLOSELY_SECONDS if late else LOOK_EVERY_SECONDS):
            try:
                late = self.look()
            except Exception as error:
                note_failure("looking at long steps", error)
                return
        self._halt.release()
