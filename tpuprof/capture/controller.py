"""Decides, step by step, when training is steady, when to start recording and when to stop.

Training is steady once a number of steps in a row compiled nothing: before that a capture would show warm-up.
A program that still compiles after the warm-up may end soon, or compile for ever. So a first recording is made
right then, and kept if training never becomes steady: recompiling without end is just what such a user wants
explained. If training does become steady, a second recording takes its place. By steps, there are never more than two.
The same holds while loaders hand out batches that they made during the first compiles: a slow loader looks fast then.
And what runs before any training (`before_training`) is kept only if no training follows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from tpuprof.capture.profiler_session import ProfilerTakenError
from tpuprof.capture.recording import QUIET_ENOUGH_SECONDS, Plan, Recording, which_counts
from tpuprof.instrument.state import pass_on

# Time after which it ends, counted from the first step's end (seconds). Steps that compile a large model take
# minutes, and a hundred of them hours; two minutes pass the warm-up of any program whose steps take less than that.
PATIENCE_SECONDS = 120.0
# Steps in a row that all compiled after which no end of it is expected (steps). Programs that compile a graph for each
# of a few input lengths repeat one of them sooner; those that compile one for each batch of an epoch (`data[i]` on the
# device) are over it when the epoch is.
ENDLESS_STEPS = 48
# Time before which patience in steps does not end where a step did not tell whether a compile was under way (s). Such a
# step becomes a quiet one after half a second of rest (`compile_threads.STALLED_SECONDS`), and a hundred steps of 4 ms
# are over before. A program that has not rested for half a second in ten times that compiles again and again.
UNSETTLED_SECONDS = 5.0
# Recordings that give way to the program's own profiler after which no other is begun (count): each costs the program
# a moment to write.
MAX_GIVEN_WAY = 3


# What a recording of steady training lasts at least where no number of steps was asked for (s), and the steps after
# which it ends all the same. Eight steps of 5 ms hold some ten samples of the host, which name no line; half a second
# holds a hundred. 48 steps of 2 ms held forty, and which line had most was chance. More steps than this make a trace
# larger, and not more certain.
LEAST_SECONDS, MOST_STEPS = 0.5, 256
# Share of that time that steps without a compile must last (share) where no more than so many of the recorded steps
# compile (share), and the time after which the recording ends all the same (s): of half a second, one compile took
# 0.31 s, and nine samples were left for 29 steps of 3 ms. With more, compiles are what is to be seen. Judgements.
QUIET_SHARE, FEW_COMPILE_SHARE, MOST_SECONDS_WITH_COMPILES = 0.5, 0.25, 5.0
# Where a loader hands batches over several at once and training waits for them, how often it does so in a recording at
# least where no number of steps was asked for (bursts), and the time after which that ends all the same (s). In 8 steps
# of 35 ms there was one wait for 8 batches or none. Judgements.
BURSTS_HELD, MOST_SECONDS_FOR_BURSTS = 3, 20.0


class Phase(Enum):
    """What the capture is doing."""

    WAITING = "waiting"
    CAPTURING = "capturing"
    DONE = "done"


class Recorder(Protocol):
    """What does the recording."""

    def start(self, recording: Recording) -> None:
        """Begin."""

    def stop(self, recording: Recording) -> None:
        """End what `start` began."""

    def done(self, kept: Recording | None) -> None:
        """Nothing more is recorded; `kept` is the recording that counts."""


class Controller:
    """A state machine fed one step boundary at a time."""

    def __init__(
        self,
        plan: Plan,
        recorder: Recorder,
        clock: Callable[[], float] = time.monotonic,
        used_up: Callable[[], bool] = lambda: True,
        free: Callable[[], bool] = lambda: True,
        compiles: Callable[[], int] = lambda: 0,
        burst: Callable[[], int] = lambda: 0,
        before_training: Callable[[], bool] = lambda: False,
    ) -> None:
        self.plan = plan
        # Programs compiled so far, and when the recording that runs began.
        self._compiles, self._compiles_before = compiles, 0
        self._free = free
        self._given_way = 0
        self._used_up = used_up
        # Steps for which a loader that training waits for hands batches over at once.
        self._burst = burst
        # Whether what is recorded cannot be training, which is still to come.
        self._is_before_training = before_training
        self.phase = Phase.WAITING
        # Whether a recording is read in this process: that holds Python's lock, so none of steps begins meanwhile.
        self.judging = False
        self.seen = 0
        self.quiet = 0
        self.compiling = 0
        self._restless = 0
        self._unsettled = 0
        # Steps that count towards patience, and those since that may have been part of a compile.
        self._told = self._untold = 0
        self._recorder = recorder
        self._clock = clock
        self._first: float | None = None
        self._started = self._last_end = 0.0
        self._current: Recording | None = None
        self._ended: list[Recording] = []
        self._before_training: Recording | None = None

    @property
    def captured(self) -> int:
        """Steps in the recording that runs, or else in the one that counts."""
        recording = self._current or self.kept()
        return recording.steps if recording else 0

    @property
    def records_by_clock(self) -> bool:
        """Whether the recording that runs was begun by the clock: where steps follow, it does not count."""
        return self._current is not None and self._current.by_clock

    @property
    def wants_lines(self) -> bool:
        """Whether steps of the recording that runs are to be traced with source lines."""
        return self._current is not None and self._current.wants_lines

    @property
    def reason(self) -> str:
        """Why training was captured although it was not steady; empty where it was."""
        recording = self._current or self.kept()
        if recording is None or not recording.early or recording.by_clock:
            return ""
        if recording.prefetched:
            return (
                "the loader handed out batches that it had made while the first steps compiled: if it is slow, the "
                "captured steps do not show it"
            )
        if self._unsettled:
            return (
                f"training was never seen to be steady: {self.compiling} of the first {self.seen} steps compiled, "
                f"and in {self._unsettled} more a compile may have been under way, so the capture may show its start"
            )
        return (
            f"training never became steady: {self.compiling} of the first {self.seen} steps compiled, and "
            f"{recording.compiling} of the {recording.steps} captured ones"
        )

    @property
    def waits_for_quiet(self) -> bool:
        """Whether it counts if the next step compiles nothing."""
        return self.phase is not Phase.DONE and (self._current is None or self._current.early)

    def begin(self) -> None:
        """Start at once where nothing is to be waited for; called before the first step."""
        if self.plan.warmup == 0 and self.plan.steady == 0:
            self._start(early=False)

    def step_ended(self, compiles: int, *, settled: bool = True) -> None:
        """One step ended that compiled so many graphs.

        `settled` tells that no compile is under way. One that is not counts neither as quiet nor as compiling.
        """
        if self.phase is Phase.DONE:
            return
        if self._first is None:
            self._first = self._clock()
        before, self._last_end = self._last_end, self._clock()
        if self._current is not None:
            began = max(before, self._started)
            self._current.step_ended(compiled=bool(compiles), seconds=self._last_end - began)
        if self._current is None or self._current.early:
            self.seen += 1
            self.compiling += bool(compiles)
            self._unsettled += not (settled or compiles)
            self.quiet = 0 if compiles else self.quiet + settled
            self._count_patience(compiles=bool(compiles), settled=settled)
        self._decide()

    def _count_patience(self, *, compiles: bool, settled: bool) -> None:
        """Count the step towards patience.

        One with a compile under way ends no row of compiling steps, and adds none to it: steps may be far shorter than
        a compile. It counts towards patience once another compile follows: if none does, it was the end of them.
        """
        if compiles:
            self._restless += 1
            self._told += self._untold + 1
            self._untold = 0
        elif settled:
            self._restless = 0
            self._told += 1
            self._untold = 0
        else:
            self._untold += 1

    @property
    def by_clock(self) -> bool:
        """Whether the recording that counts was made by the clock."""
        kept = self.kept()
        return kept is not None and kept.by_clock

    def record_by_clock(self, *, restless: bool = False) -> bool:
        """Record now: no step was seen, and none may ever be. Whether recording began."""
        self._start(early=True, by_clock=True, restless=restless)
        return self._current is not None

    def end_by_clock(self, *, spare: bool = False) -> bool:
        """End a recording by the clock; whether it still ran. Steps that are seen later are recorded all the same."""
        if self._current is None or not self._current.by_clock:
            return False
        self._current.whole, self._current.spare = True, spare
        self._stop()
        return True

    def drop_by_clock(self, quiet_seconds: float = 0.0) -> bool:
        """End a recording by the clock as if it had not been made; whether it still ran.

        One in which no compile came for long enough is kept for the case that nothing better follows.
        """
        dropped = self._current
        if dropped is None or not dropped.by_clock:
            return False
        if quiet_seconds >= QUIET_ENOUGH_SECONDS:
            dropped.quiet_seconds = quiet_seconds
            self._stop()
            return True
        dropped.dropped = True
        self._stop()
        self._ended.remove(dropped)
        return True

    def found_empty(self) -> None:
        """The recording that ended last shows no step."""
        if self._ended:
            self._ended[-1].empty = True

    def give_way(self) -> bool:
        """The program wants the profiler for itself: end the recording that runs; whether one did.

        It counts if none that is longer follows.
        """
        if self._current is None:
            return False
        self._given_way += 1
        self._stop()
        if self._given_way >= MAX_GIVEN_WAY:
            self.finish()
        return True

    def give_up(self) -> None:
        """Something failed: stop recording if it runs, and record no more."""
        try:
            self._stop()
        finally:
            self.phase = Phase.DONE

    def count_anew(self) -> None:
        """The steps recorded so far were only parts of whole ones: record as many again."""
        if self._current is not None:
            self._current.count_anew()

    def begin_anew(self) -> None:
        """What was counted and recorded so far was no training: wait again, and keep it only if nothing follows."""
        if self.phase is Phase.DONE:
            return
        self._stop()
        self._before_training = self._before_training or self.kept()
        self._ended.clear()
        self.seen = self.quiet = self.compiling = self._restless = self._unsettled = self._told = (
            self._untold
        ) = 0
        self._first = None

    def finish(self) -> None:
        """Stop recording if it runs; nothing is captured after this."""
        if self.phase is Phase.DONE:
            return
        self._stop()
        self.phase = Phase.DONE
        self._recorder.done(self.kept())

    def kept(self) -> Recording | None:
        """Of the recordings that ended, the one that counts: the newest, unless it is too short and an older is not.

        One by the clock counts although no step is seen in it, any other only with a step or a part of one.
        """
        return which_counts(self._ended, self.plan.steps) or self._before_training

    def _decide(self) -> None:
        current = self._current
        if current is not None and current.steps >= self.plan.steps:
            if not current.early and not self._is_long_enough(current):
                return
            if (not current.early or self._patience_is_over()) and not self._awaits_training():
                self.finish()
                return
            self._stop()
        elif current is not None and not current.early:
            return
        if self.judging and self._current is None:
            return
        if self.seen < self.plan.warmup or (self._has_steady() and self._awaits_training()):
            return
        quiet = self.quiet >= self.plan.steady
        if quiet and self._used_up():
            self._stop()
            self._start(early=False)
        elif self._current is None:
            self._make_do(quiet=quiet)

    def _make_do(self, *, quiet: bool) -> None:
        """Record what is not steady, or end with what there is, where that is due."""
        over = self._patience_is_over()
        if over and self._followed_steps():
            if not self._awaits_training():
                self.finish()
        elif over or self._early_is_due(quiet=quiet):
            self._start(early=True, prefetched=quiet)

    def _is_long_enough(self, current: Recording) -> bool:
        """Of steps that nobody counted: short ones, and those that wait for data now and then, are more."""
        took = self._clock() - self._started
        few = current.compiling <= FEW_COMPILE_SHARE * current.steps and took < MOST_SECONDS_WITH_COMPILES
        quiet = took - current.compiling_seconds
        short = took < self.plan.seconds or (few and quiet < QUIET_SHARE * self.plan.seconds)
        between = took < MOST_SECONDS_FOR_BURSTS and current.steps < BURSTS_HELD * self._burst()
        return current.steps >= MOST_STEPS or not (short or (self.plan.seconds and between))

    def _awaits_training(self) -> bool:
        """Whether what was recorded is kept only if nothing follows: training is still to come, and may do so soon."""
        return self.plan.early and self._waited() < PATIENCE_SECONDS and self._is_before_training()

    def _has_steady(self) -> bool:
        return bool(self._ended) and not self._ended[-1].early

    def _followed_steps(self) -> bool:
        """Whether a recording has ended that was made by steps: one by the clock says nothing of those."""
        return not all(each.by_clock for each in self._ended)

    def _early_is_due(self, *, quiet: bool) -> bool:
        first = self.plan.early and not self._followed_steps()
        return first and (quiet or (self.seen > self.plan.warmup and not self.quiet))

    def _patience_is_over(self) -> bool:
        waited = self._waited()
        enough = self._told >= max(self.plan.patience, self.plan.warmup)
        steps = enough and (not self._unsettled or waited >= UNSETTLED_SECONDS)
        return steps or waited >= PATIENCE_SECONDS or self._restless >= ENDLESS_STEPS

    def _waited(self) -> float:
        """Time since the first step's end (s)."""
        return self._clock() - self._first if self._first is not None else 0.0

    def _start(
        self, *, early: bool, by_clock: bool = False, prefetched: bool = False, restless: bool = False
    ) -> None:
        if not self.plan.steps:
            return  # steps are timed and not recorded
        if not self._free():
            return  # the next step, or the clock, asks again
        self.phase = Phase.CAPTURING
        self._current = Recording(
            early,
            self.seen,
            by_clock=by_clock,
            prefetched=prefetched,
            restless=restless,
        )
        self._started, self._compiles_before = self._clock(), self._compiles()
        try:
            self._recorder.start(self._current)
        except ProfilerTakenError as error:
            pass_on(error)
            self.phase, self._current = Phase.WAITING, None  # the next step, or the clock, asks again
        except BaseException:
            self.phase, self._current = Phase.WAITING, None
            raise

    def _stop(self) -> None:
        if self._current is None:
            return
        recording, self._current = self._current, None
        recording.seconds = self._clock() - self._started
        recording.compiles = self._compiles() - self._compiles_before
        self.phase = Phase.WAITING
        self._ended.append(recording)
        self._recorder.stop(recording)
