"""Records a program that marks no steps and calls no optimizer, by the clock.

JAX shows no boundary of a step from outside: steps are found afterwards by the trace's own repetition. So once
programs were compiled and no further compile came for a while, some seconds are recorded; where compiles do not end,
they are recorded all the same. A program may train for less than that: so recording begins early, and at once where a
compile has ended that is long enough for a step's. What a compile ends soon is dropped. A recording that compiled is
made again when the program is quiet, and one that shows no step when something was compiled: programs make their data
first, and compile the step when training begins. A step that is marked meanwhile takes over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from tpuprof.capture.contention import waited_seconds
from tpuprof.instrument.hidden_thread import HiddenThread, leave_list

# How often the pacer looks (s). It only reads a few numbers.
LOOK_EVERY_SECONDS = 0.1
# Time without a compile after which a program counts as warm (s): short, because a program may train for seconds only.
# On a busy machine half a second is little. So the process must also have used this much CPU, or have had it besides
# what its threads waited for a CPU (one that sleeps uses none), or have waited for longer.
QUIET_SECONDS, QUIET_CPU_SECONDS, QUIET_IDLE_SECONDS = 0.5, 0.25, 4.0
# Time after the first compile, or after a recording that compiled, at which a program that still compiles is recorded
# (s).
PATIENCE_SECONDS = 5.0
# A recording before that, of a program that has compiled for this long (s) and still does. A quiet time ends it, and it
# counts where no other follows: it is all that is left of a program that compiles again and again and trains for
# seconds only. How many there are at most (count).
RESTLESS_SECONDS, MAX_RESTLESS = 2.0, 2
# What is recorded (s): several steps of most programs.
RECORD_SECONDS = 2.0
# What a program is recorded for that compiles meanwhile, and at most (s): its steps are far longer.
RECORD_LONG_SECONDS = 8.0
# Recordings at most (count): each costs the program a moment to write.
MAX_RECORDINGS = 3
# After a recording without a step, time without a compile until the next (s), and how much longer after each further
# one (ratio): eight of them cover twenty minutes of preparation. The recordings become longer by that, too.
PAUSE_SECONDS, LONGER_BY = 5.0, 2.0
MAX_EMPTY = 8
# Where so many recordings showed no step, and programs were compiled since the first of them: what is recorded then
# goes on until so many compiles have come, for so long at most (count, count, s), unless none comes for as long as a
# long recording lasts. Programs that compile in each step, for longer than a recording, leave no other trace: an event
# that does not end is in none. The first compile has mostly begun before; three whole steps are the fewest that repeat.
ENDLESS_FROM_EMPTY, COMPILES_TO_SEE, RECORD_COMPILES_SECONDS = 2, 4, 120.0
# A recording before that, which the next compile ends and drops: all that is left of a program that trains for less
# than a second. Time without a compile after which it begins (s): one look. How many there are at most (count).
EARLY_QUIET_SECONDS, MAX_EARLY = 0.1, 2
# A compile from which a step may follow at once (s): those of single ops take some hundredths. How many recordings
# begin so at most (count): each costs some hundredths of a second, and what compiles for longer is restless.
STEP_COMPILES_FROM_SECONDS, MAX_AT_ONCE = 0.1, 6


class Paced(Protocol):
    """What the pacer drives. `hears` tells whether it hears of each compile as that ends."""

    hears: bool

    def awake(self) -> bool:
        """Whether it may be that no step will be seen."""

    def compiles(self) -> int:
        """Programs compiled since the process began."""

    def compiling(self) -> bool:
        """Whether a program is being made: compiled, or traced for its first compile."""

    def marked(self) -> bool:
        """Whether a step was seen, so that nothing needs to be paced."""

    def begin(self) -> bool:
        """Start recording; whether that could be done."""

    def end(self) -> bool:
        """Stop recording, unless steps have taken over; whether it went on until now."""

    def spare(self) -> None:
        """Stop recording, unless steps have taken over: it counts where nothing else shows a step."""

    def drop(self, quiet_seconds: float) -> None:
        """Stop recording, unless steps have taken over: a compile came after so long, and little of it is kept."""

    def keep(self) -> None:
        """Write what was recorded, although the program goes on."""

    def empty(self) -> bool:
        """Whether the recording shows no step."""


class Pacer:
    """A thread that waits for a warm program and has it recorded."""

    def __init__(
        self,
        paced: Paced,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.process_time,
        waited: Callable[[], float] = waited_seconds,
    ) -> None:
        self.recordings = self.empty = self.early = self.restless = self.at_once = 0
        # Whether an early recording runs, when it began, and after how many compiles. Compiles end in another thread.
        self._early_runs, self._begun, self._before = False, 0.0, 0
        # Whether a recording has just ended and is looked at: one that began meanwhile would be taken for it.
        self._judges = False
        self._turn = threading.RLock()
        self._pause_until: float | None = None
        # Compiles when the first recording without a step ended.
        self._at_first_empty: int | None = None
        self._paced = paced
        self._clock, self._cpu, self._waited = clock, cpu, waited
        # Read when the quiet time has begun, and not while programs compile: it takes a file per thread.
        self._waited_before: float | None = None
        self._halt = threading.Event()
        self._since: float | None = None
        self._last = (0.0, 0.0)
        self._seen = paced.compiles()

    def start(self) -> None:
        """Begin to look."""
        HiddenThread(self._run).start()

    def stop(self) -> None:
        """Look no more."""
        self._halt.set()

    def due(self) -> bool:
        """Whether recording should begin now; called at each look."""
        now = self._look()
        if self._since is None or (self._pause_until is not None and now < self._pause_until):
            return False
        return self._quiet(now) or now - self._since >= PATIENCE_SECONDS * (1 + self.recordings)

    def _look(self) -> float:
        """See whether something compiled; the time."""
        now, compiles = self._clock(), self._paced.compiles()
        if compiles != self._seen:
            self._pause_until = None
        if compiles != self._seen or (self._since is not None and self._paced.compiling()):
            self._seen, self._last, self._waited_before = compiles, (now, self._cpu()), None
            self._since = self._since if self._since is not None else now
        return now

    def _quiet(self, now: float) -> bool:
        since, cpu = now - self._last[0], self._cpu() - self._last[1]
        if since >= QUIET_IDLE_SECONDS or (since >= QUIET_SECONDS and cpu >= QUIET_CPU_SECONDS):
            return True
        if self._waited_before is None:
            self._waited_before = self._waited()
        return since >= QUIET_SECONDS and since - (self._waited() - self._waited_before) >= QUIET_SECONDS

    def early_due(self) -> bool:
        """Whether a recording should begin that the next compile drops; asked after `due`."""
        if self.early >= MAX_EARLY or self._since is None or self._pause_until is not None:
            return False
        return self._clock() - self._last[0] >= EARLY_QUIET_SECONDS

    def restless_due(self) -> bool:
        """Whether a recording should begin that a quiet time drops; asked after `due`."""
        if (
            self.restless >= MAX_RESTLESS
            or self.recordings
            or self._since is None
            or self._pause_until is not None
        ):
            return False
        now = self._clock()
        return now - self._since >= RESTLESS_SECONDS and now - self._last[0] < EARLY_QUIET_SECONDS

    def record(self, wait: Callable[[float], object]) -> bool:
        """Record once; whether that shows what there is to see, so that no other recording is needed.

        `wait` returns true where the program ends: what ends then, keeps the recording.
        """
        before = self._paced.compiles()
        if not self._paced.begin():
            return False
        # Where no step was found, each may be longer than what was recorded.
        seconds = min(RECORD_SECONDS * LONGER_BY**self.empty, RECORD_LONG_SECONDS)
        if wait(seconds):
            return True
        more = RECORD_LONG_SECONDS - seconds
        if more and self._paced.compiles() != before and wait(more):
            return True
        return self._saw_compiles(before, wait) or self._ended(before)

    def _saw_compiles(self, before: int, wait: Callable[[float], object]) -> bool:
        """Go on until some compiles have ended, where each seems to take longer than a recording.

        Returns whether the program ended meanwhile.
        """
        first = self._at_first_empty
        if self.empty < ENDLESS_FROM_EMPTY or first is None or before < first + ENDLESS_FROM_EMPTY:
            return False
        # Compiles of torch_xla may keep Python's lock, so that this thread always wakes up between two of them.
        until = self._clock() + RECORD_COMPILES_SECONDS
        while self._paced.compiles() < before + COMPILES_TO_SEE and self._clock() < until:
            if wait(LOOK_EVERY_SECONDS):
                return True
            # Between two compiles a step is traced, which takes long where compiling does.
            if self._look() - self._last[0] >= RECORD_LONG_SECONDS:
                return False
        return False

    def record_early(self, wait: Callable[[float], object]) -> bool:
        """Record until a compile comes, and drop it then; the same result."""
        with self._turn:
            self.early += 1
            if not self._begin_early():
                return False
        return self._follow_early(wait)

    def _begin_early(self) -> bool:
        self._before, self._begun = self._paced.compiles(), self._clock()
        self._early_runs = self._paced.begin()
        return self._early_runs

    def _follow_early(self, wait: Callable[[float], object]) -> bool:
        while True:
            if wait(LOOK_EVERY_SECONDS):
                return True
            with self._turn:
                if not self._early_runs:
                    return False
                if self._clock() - self._begun >= RECORD_SECONDS:
                    self._early_runs, self._judges = False, True
                    break
                # Where the end of a compile is heard, it is a matter of `compiled`.
                under_way = self._paced.compiling() and not self._paced.hears
                if self._paced.compiles() != self._before or under_way:
                    self._early_runs = False
                    # It began since the last look.
                    self._paced.drop(self._clock() - self._begun - LOOK_EVERY_SECONDS)
                    return False
        # What follows reads the profile, and a compile that ends meanwhile does not wait for it.
        return self._ended(self._before)

    def compiled(self, seconds: float) -> None:
        """A compile of so long has ended in the thread that trains: from here on the step may run, and soon be over.

        What was recorded early before it is dropped. After one that is long enough for a step's, recording begins at
        once: the next look may come when training is over, since compiles keep Python's lock.
        """
        with self._turn:
            if self._early_runs:
                self._early_runs = False
                self._paced.drop(self._clock() - self._begun - seconds)
            long = seconds >= STEP_COMPILES_FROM_SECONDS and not self._judges
            if long and self.at_once < MAX_AT_ONCE and not self.recordings:
                self.at_once += 1
                self._begin_early()

    def record_restless(self, wait: Callable[[float], object]) -> bool:
        """Record while the program compiles again and again; the same result.

        When that ends, it is kept for the case that training is over before the next recording, which counts instead.
        """
        before = self._paced.compiles()
        self.restless += 1
        if not self._paced.begin():
            return False
        begun = self._clock()
        while self._clock() - begun < RECORD_LONG_SECONDS:
            if wait(LOOK_EVERY_SECONDS):
                return True
            if self._quiet(self._look()):
                self._paced.spare()
                return False
        return self._ended(before)

    def _ended(self, before: int) -> bool:
        """End the recording, begun after so many compiles; whether no other is needed."""
        self._judges = True
        try:
            return self._judged(before)
        finally:
            self._judges = False

    def _judged(self, before: int) -> bool:
        # A program that is being made may well be the step's: what was recorded came before training then.
        under_way = self._paced.compiling()
        whole = self._paced.end()
        now = self._clock()
        if self._paced.empty():
            self.empty += 1
            if self._at_first_empty is None:
                self._at_first_empty = self._paced.compiles()
            self._pause_until = now + PAUSE_SECONDS * LONGER_BY ** (self.empty - 1)
            return self.empty >= MAX_EMPTY
        self.recordings += 1
        self._since = now
        compiled = under_way or self._paced.compiles() != before
        return (whole and not compiled) or self.recordings >= MAX_RECORDINGS

    def _run(self) -> None:
        while not self._wait(LOOK_EVERY_SECONDS):
            if self._paced.marked():
                return
            if self._paced.awake() and self._recorded():
                # At the program's end it is written anyway.
                if not self._halt.is_set():
                    self._paced.keep()
                return

    def _recorded(self) -> bool:
        """Record where that is due; whether no other recording is needed."""
        if self._early_runs:
            return self._follow_early(self._wait)
        if self.due():
            return self.record(self._wait)
        if self.restless_due():
            return self.record_restless(self._wait)
        return self.early_due() and self.record_early(self._wait)

    def _wait(self, seconds: float) -> bool:
        leave_list()
        return self._halt.wait(seconds)
