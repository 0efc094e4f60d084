"""How much is recorded, what one recording is, and which of several counts."""

from __future__ import annotations

from dataclasses import dataclass

from tpuprof.run_folder import USUAL_WARMUP
from tpuprof.units import counted

# Steps in a row without a compile that make training steady. The first step compiles, the second often too
# (new optimizer state, donated buffers), so a single quiet step proves nothing.
STEADY_STEPS = 2
# Steps after which waiting for steadiness ends.
PATIENCE_STEPS = 100
# Steps that a recording of steady training must hold to be worth more than one from before (steps): of a single
# step nothing repeats.
FEWEST_STEPS = 2
# Steps of one recording that compiled from which its further ones are traced with source lines (steps): a step that
# compiles once, for a last batch or a first evaluation, makes no other one slower to trace. A program that compiled in
# every second step was steady for two; of its eight captured steps three compiled, and none of the three had a line.
LINES_FROM_COMPILING = 2
# What a recording by the clock that the program's end cut short must last to count like a whole one (s): half of what
# is recorded of a program that does not compile. A whole one of a program that compiles is longer, and shows less.
ENOUGH_BY_CLOCK_SECONDS = 1.0
# Compiles per second in a recording that the program's end cut short, as a share of those in a whole one before it,
# from which the program still does what that one shows (ratio): the longer one then holds more of it. A judgement.
STILL_COMPILES_FROM = 0.5
# Time without a compile from which a recording by the clock that one ended is kept all the same (s), and how many times
# longer than another one it must have been quiet to count before it (ratio). A program may train for less than a
# second, and then compile what it prints; what it did before it compiled its step is mostly no training.
QUIET_ENOUGH_SECONDS, QUIET_TIMES = 0.3, 2.0


@dataclass(frozen=True)
class Plan:
    """How much to capture: at least `warmup` steps first, then `steps` of them. `patience` in steps.

    Steady training is recorded for at least `seconds`, in `controller.MOST_STEPS` at most. `early` allows the first
    recording of training that is not steady.
    """

    warmup: int = USUAL_WARMUP
    steps: int = 8
    steady: int = STEADY_STEPS
    patience: int = PATIENCE_STEPS
    early: bool = True
    seconds: float = 0.0


@dataclass
class Recording:
    """One recording: whether it began before training was steady, after how many steps, and the steps it holds.

    One `by_clock` was made because no step was seen; it is `restless` where the program compiled nearly all it ran.
    `whole` tells that it was not cut short. `empty` tells that it shows no step: the program still made its data, say.
    `dropped` tells that a compile ended it, before which nothing counts, `quiet_seconds` how long none came before one
    ended it: it is kept, and counts where no other is nearly as long.
    `spare` tells that it holds compiles that have ended, so that any other which shows a step counts before it.
    `prefetched` tells that only batches made before were waited for to be used up. `with_lines` are its steps that were
    traced with source lines since steps before them had compiled.
    """

    early: bool
    after: int
    steps: int = 0
    compiling: int = 0
    # What the steps that compiled took (s).
    compiling_seconds: float = 0.0
    with_lines: int = 0
    by_clock: bool = False
    restless: bool = False
    prefetched: bool = False
    seconds: float = 0.0
    whole: bool = False
    empty: bool = False
    dropped: bool = False
    quiet_seconds: float | None = None
    spare: bool = False
    # What starting and ending the profiler took (s). Training waits for that.
    profiler_seconds: float = 0.0
    # Programs that compiled meanwhile (count), of a recording that has ended.
    compiles: int = 0

    def step_ended(self, *, compiled: bool, seconds: float = 0.0) -> None:
        """Count a step that ended in it, of which so much lies in the recording (s)."""
        self.with_lines += self.compiling >= LINES_FROM_COMPILING
        self.steps += 1
        self.compiling += compiled
        self.compiling_seconds += seconds if compiled else 0.0

    def count_anew(self) -> None:
        """Count its steps from the next one on."""
        self.steps = self.compiling = self.with_lines = 0
        self.compiling_seconds = 0.0

    @property
    def wants_lines(self) -> bool:
        """Whether it holds compiles, as far as is known: their lines explain them, and make tracing slower."""
        return self._begins_with_lines or self.compiling >= LINES_FROM_COMPILING

    @property
    def has_lines(self) -> bool:
        """Whether any of it was traced with source lines for that reason."""
        return self._begins_with_lines or self.with_lines > 0

    @property
    def _begins_with_lines(self) -> bool:
        return self.early and not self.prefetched and (self.restless or not self.by_clock)

    @property
    def compiles_per_second(self) -> float:
        """How often a program compiled in it, once it has ended."""
        return self.compiles / self.seconds if self.seconds else 0.0

    @property
    def worth(self) -> float:
        """How long it lasts (s), as it counts beside others: one that a compile ended may be of what came before."""
        return self.seconds if self.quiet_seconds is None else self.quiet_seconds / QUIET_TIMES

    def announced(self, plan: Plan) -> str:
        """What is said when it begins."""
        if self.by_clock:
            return (
                "no training step was seen so far: recording a few seconds of whatever runs, and again until that "
                "shows steps and no compile"
            )
        more = " or more" if plan.seconds and not self.early else ""
        if self.early:
            return f"training is not yet steady after {counted(self.after, 'step')}; capturing {plan.steps}{more}"
        if not plan.steady:
            return f"capturing {plan.steps}{more} after {counted(self.after, 'step')}"
        return f"no compile in the last {plan.steady} of {counted(self.after, 'step')}; capturing {plan.steps}{more}"

    def result(self) -> str:
        """What is said of it once it has ended."""
        if self.by_clock:
            what = "no step was found in it" if self.empty else "the analysis looks for steps in it"
            return f"recorded {self.seconds:.1f} s by the clock; {what}"
        return (
            "the recording ended before a step did"
            if self.empty
            else f"captured {counted(self.steps, 'step')}"
        )


def which_counts(ended: list[Recording], steps: int) -> Recording | None:
    """Of the recordings that ended, the one that counts: the newest, unless it is too short and an older is not.

    `steps` is how many were to be recorded. One by the clock counts although no step is seen in it, any other only with
    a step or a part of one. None where none counts.
    """
    ended = [each for each in ended if each.by_clock or not each.empty]
    long = [each for each in ended if each.steps >= min(FEWEST_STEPS, steps)]
    if long or not ended:
        return long[-1] if long else None
    # Of recordings by the clock, one that was cut short soon counts less than one before it.
    full = [each for each in ended if not each.empty] or ended
    full = [each for each in full if not each.spare] or full
    # Of a program that compiles nearly all it runs, the first holds the most steps: they become longer and longer.
    whole = [each for each in full if each.whole]
    if whole and full[-1].restless:
        return whole[0]
    uncut = [each for each in full if each.quiet_seconds is None]
    enough = [each for each in uncut if each.whole or each.seconds >= ENOUGH_BY_CLOCK_SECONDS]
    return _newest(enough) if enough else max(full, key=lambda each: each.worth)


def _newest(enough: list[Recording]) -> Recording:
    """The newest recording by the clock; the whole one before it where that shows more of the same compiles."""
    newest, whole = enough[-1], [each for each in enough if each.whole]
    if newest.whole or not whole or not newest.compiles:
        return newest
    as_often = newest.compiles_per_second >= STILL_COMPILES_FROM * whole[-1].compiles_per_second
    return whole[-1] if as_often and whole[-1].compiles > newest.compiles else newest
