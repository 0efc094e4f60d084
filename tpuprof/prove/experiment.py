"""Runs before and after in turn and decides: confirmed, refuted, or undecided and why."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from tpuprof.prove.intervals import Interval, interval
from tpuprof.prove.prediction import Prediction
from tpuprof.prove.readings import losses_agree
from tpuprof.prove.timing import Runner, Timed, TooLongError
from tpuprof.records import record
from tpuprof.units import format_ms, format_share, with_minus

_Program = TypeVar("_Program")
# A block is before, after, after, before: a machine that gets slower or faster steadily favours neither.
ABBA = ("before", "after", "after", "before")
# What is run where the budget holds no two blocks: the least that an interval can be made of. In turns, so that a
# machine that gets slower or faster steadily favours neither by more than a third of a pair's drift.
FEW_PAIRS = (("before", "after"), ("after", "before"), ("before", "after"))
# A budget that is advised is by this factor longer than the runs so far let expect (ratio): runs differ.
BUDGET_MARGIN = 1.1
# Blocks before the first look, so that an interval has some pairs (blocks of two pairs).
FIRST_LOOK = 2
# A saving below this share of the time before is no reason to change a program, and is called none (share).
LEAST = 0.01
# The interval is narrow once half of it is this share of the mean saving (ratio).
NARROW = 0.25
# A saving that is below this share of the least predicted one refutes the prediction (ratio): prices of the scenarios
# miss what is measured by less (docs/scenarios.md), and a fix that reaches its cause saves more.
PREDICTED_PART = 0.5
# Steps counted in runs of both programs may differ by this share (ratio): of a mean over more or fewer steps the
# difference is not one of the same work, and a saving of `LEAST` must not come from it.
COUNT_TOLERANCE = 0.005
# A confirmed saving of more than this many times the largest predicted one is doubted aloud (ratio).
SURPRISING = 2.0
# Losses may differ by this share (ratio): reordered sums in bfloat16 differ by up to 1/256 of each step's.
TOLERANCE = 0.01


class Outcome(StrEnum):
    """What came of a fix."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


@record(frozen=True)
class Plan:
    """How much is run: blocks at most, seconds at most, discarded runs of each program first; what counts as equal."""

    blocks: int = 8
    budget_s: float = 600.0
    discarded: int = 1
    least: float = LEAST
    tolerance: float = TOLERANCE


@record
class Experiment:
    """All runs, in order of their pairs, and what follows from them. Times in ms; the saving is before less after.

    `uncounted` are the other runs: discarded ones, and those of a block that was not completed. `comparable` is whether
    the programs were timed alike and train alike: then the saving alone decides.
    """

    before: list[Timed] = field(default_factory=list)
    after: list[Timed] = field(default_factory=list)
    uncounted: list[tuple[str, Timed]] = field(default_factory=list)
    saving: Interval | None = None
    comparable: bool = False
    outcome: Outcome = Outcome.UNDECIDED
    reason: str = ""

    @property
    def before_ms(self) -> float | None:
        """Mean time before."""
        return statistics.fmean(each.ms for each in self.before) if self.before else None

    @property
    def after_ms(self) -> float | None:
        """Mean time after."""
        return statistics.fmean(each.ms for each in self.after) if self.after else None

    @property
    def losses(self) -> tuple[float, float] | None:
        """Mean last losses before and after, None where a run prints none."""
        first, second = _losses(self.before), _losses(self.after)
        complete = len(first) == len(self.before) and len(second) == len(self.after)
        return (statistics.fmean(first), statistics.fmean(second)) if complete and first and second else None


def experiment(
    before: _Program,
    after: _Program,
    runner: Runner[_Program],
    plan: Plan | None = None,
    clock: Callable[[], float] = time.monotonic,
    say: Callable[[str], None] = lambda _: None,
) -> Experiment:
    """Run both programs in ABBA blocks until the saving is known or the budget ends.

    Raises `TpuprofError` (`prove-program-failed`) where a program fails.
    """
    plan = plan or Plan()
    tried, budget = Experiment(), _Budget(clock, clock() + plan.budget_s)
    commands = {"before": before, "after": after}

    def timed(name: str, of: str) -> Timed:
        found = runner(commands[name], max(budget.left(), 1.0))
        budget.ran(name, found.seconds)
        tried.uncounted.append((name, found))
        say(f"{of}, {name}: {format_ms(found.ms)}")
        return found

    try:
        for number in range(plan.discarded):
            for name in commands:
                timed(name, f"warm-up {number + 1}")
        _blocks(timed, tried, plan, budget)
    except TooLongError:
        # A block that is not complete would favour one of the programs.
        _budget_ended(tried, plan, budget)
    return tried


@dataclass
class _Budget:
    """How long runs took, and how much time is left (s)."""

    clock: Callable[[], float]
    ends: float
    longest: dict[str, float] = field(default_factory=dict)

    def left(self) -> float:
        """What is left of the budget."""
        return self.ends - self.clock()

    def ran(self, name: str, seconds: float) -> None:
        """Note how long a run of a program took."""
        self.longest[name] = max(self.longest.get(name, 0.0), seconds)

    def pair(self) -> float:
        """What a run of each program takes at most."""
        return sum(self.longest.values())

    def enough(self, discarded: int) -> str:
        """A budget that two blocks fit into behind so many discarded runs of each program, as the option takes it.

        Empty where a program never came to its end.
        """
        if len(self.longest) < len(set(ABBA)):
            return ""
        seconds = BUDGET_MARGIN * ((discarded + FIRST_LOOK * 2) * self.pair())
        return f"{10 * math.ceil(seconds / 10)}s"


def _blocks(timed: Callable[[str, str], Timed], tried: Experiment, plan: Plan, budget: _Budget) -> None:
    """Run what fits into the budget."""
    pair, left = budget.pair(), budget.left()
    if len(FEW_PAIRS) * pair <= left < FIRST_LOOK * 2 * pair:
        _few_pairs(timed, tried, plan, FEW_PAIRS, budget)
        return
    # What fits is known before a difference is: with fewer looks each may be narrower.
    asked, plan = plan.blocks, replace(plan, blocks=_affordable(plan, left, 2 * pair))
    for block in range(1, plan.blocks + 1):
        if budget.left() < 2 * budget.pair():
            if block == FIRST_LOOK and budget.left() >= budget.pair():
                # Runs took longer than those before them: three pairs are there with one more.
                _few_pairs(timed, tried, plan, FEW_PAIRS[:1], budget)
            else:
                _budget_ended(tried, plan, budget)
            return
        runs = [timed(name, f"block {block}") for name in ABBA]
        if _take(runs, tried, plan, look_at=block >= FIRST_LOOK):
            return
    if not is_known(tried) and plan.blocks < asked:
        _budget_ended(tried, plan, budget)


def _few_pairs(
    timed: Callable[[str, str], Timed],
    tried: Experiment,
    plan: Plan,
    orders: tuple[tuple[str, str], ...],
    budget: _Budget,
) -> None:
    """Run these pairs, then look once."""
    for number, order in enumerate(orders, len(tried.before) + 1):
        runs = {name: timed(name, f"pair {number}") for name in order}
        _count(tried, [runs["before"]], [runs["after"]])
    look(tried, replace(plan, blocks=FIRST_LOOK))
    if not is_known(tried):
        _budget_ended(tried, plan, budget)


def _affordable(plan: Plan, left_s: float, block_s: float) -> int:
    """Blocks that fit into what is left of the budget (s), those of the first look at least; the plan's at most."""
    fits = int(left_s // block_s) if block_s > 0 else plan.blocks
    return max(min(plan.blocks, fits), FIRST_LOOK)


def _take(runs: list[Timed], tried: Experiment, plan: Plan, *, look_at: bool) -> bool:
    """Add a block of runs; whether the saving is known with it."""
    _count(tried, [runs[0], runs[3]], [runs[1], runs[2]])
    if not look_at:
        return False
    look(tried, plan)
    return is_known(tried)


def _count(tried: Experiment, before: list[Timed], after: list[Timed]) -> None:
    """Count the newest runs, which are these."""
    del tried.uncounted[-len(before) - len(after) :]
    tried.before += before
    tried.after += after


def _budget_ended(tried: Experiment, plan: Plan, budget: _Budget) -> None:
    """Say so where nothing is known yet."""
    if tried.outcome is not Outcome.UNDECIDED:
        return
    name, enough = f"the budget of {plan.budget_s:g} s", budget.enough(plan.discarded)
    if tried.reason:
        tried.reason = f"{tried.reason}; {name} holds no more runs"
    elif enough:
        tried.reason = (
            f"{name} does not hold {FIRST_LOOK} blocks of runs: a run of each program takes {budget.pair():.3g} s "
            f"together; use --budget {enough}"
        )
    else:
        tried.reason = f"{name} ended before each program had run once; use a larger --budget"


def look(tried: Experiment, plan: Plan) -> None:
    """Decide from the runs so far."""
    tried.comparable = False
    unlike = _timed_unlike(tried)
    if unlike:
        tried.saving = None
        _undecided(tried, unlike)
        return
    # The runs of a pair follow each other; in each block they are the first two and the last two.
    differences = [first.ms - second.ms for first, second in zip(tried.before, tried.after, strict=True)]
    tried.saving = interval(differences, plan.blocks - FIRST_LOOK + 1)
    whole = tried.before_ms or 0.0
    if tried.saving is None or whole <= 0:
        _undecided(tried, "there are too few pairs")
        return
    unlike = _trained_unlike(tried, plan)
    if unlike:
        _undecided(tried, unlike)
        return
    tried.comparable = True
    least = plan.least * whole
    if tried.saving.low > 0 and tried.saving.mean >= least:
        tried.outcome, tried.reason = Outcome.CONFIRMED, ""
    elif tried.saving.high < least:
        slower = tried.saving.high < 0
        tried.outcome = Outcome.REFUTED
        tried.reason = "it is slower" if slower else f"it saves less than {format_share(plan.least)}"
    else:
        bounds = (tried.saving.low, tried.saving.high)
        low, high = (with_minus(max(-1.0, bound / whole), format_share) for bound in bounds)
        _undecided(tried, f"the saving lies between {low} and {high}, so it may be none")


def _timed_unlike(tried: Experiment) -> str:
    """Why times of the two programs are not of the same thing, empty where they are."""
    sources = {each.read_from for each in (*tried.before, *tried.after)}
    if len(sources) > 1:
        return f"times were read from {' and from '.join(sorted(sources))}, which cannot be compared"
    first, second = _mean_steps(tried.before), _mean_steps(tried.after)
    if first is None or second is None or abs(first - second) <= COUNT_TOLERANCE * max(first, second):
        return ""
    return (
        f"{first:.0f} steps were counted before the fix and {second:.0f} after it, so a step is not the same work: let "
        "both programs print their step_ms, mark steps with tpuprof.step(i), or use --measure total"
    )


def _trained_unlike(tried: Experiment, plan: Plan) -> str:
    """Why the two programs do not train alike as far as they print losses, empty where they do."""
    before, after = _losses(tried.before), _losses(tried.after)
    if (before or after) and tried.losses is None:
        return "some of the runs print a loss and others do not"
    if tried.losses is None or losses_agree(before, after, plan.tolerance):
        return ""
    first, second = tried.losses
    return f"the losses differ ({first:.6g} before, {second:.6g} after): they do not train alike"


def compare_with(tried: Experiment, prediction: Prediction | None) -> None:
    """Refute what is undecided after all runs, where the interval excludes half of the least predicted saving.

    Only after all runs: until then a smaller saving may still be confirmed. Shares of the step are compared where the
    prediction has them.
    """
    if prediction is None or tried.saving is None or tried.before_ms is None or not tried.comparable:
        return
    least, _ = prediction.expected(tried.before_ms)
    if tried.outcome is Outcome.UNDECIDED and tried.saving.high < PREDICTED_PART * least:
        tried.outcome = Outcome.REFUTED
        tried.reason = "it saves less than half of what was predicted, if anything"


def is_surprising(tried: Experiment, prediction: Prediction | None) -> bool:
    """Whether much more was saved than was predicted: the fix may then leave work out, or change something else."""
    if prediction is None or tried.saving is None or tried.before_ms is None:
        return False
    _, most = prediction.expected(tried.before_ms)
    return tried.outcome is Outcome.CONFIRMED and tried.saving.low > SURPRISING * most


def is_known(tried: Experiment) -> bool:
    """Whether more runs would change nothing: the outcome is known, and of a saving the size too."""
    if tried.saving is None or tried.outcome is Outcome.UNDECIDED:
        return False
    return tried.outcome is Outcome.REFUTED or tried.saving.half <= NARROW * abs(tried.saving.mean)


def _losses(runs: list[Timed]) -> list[float]:
    return [each.loss for each in runs if each.loss is not None]


def _mean_steps(runs: list[Timed]) -> float | None:
    counts = [each.steps for each in runs if each.steps is not None]
    return statistics.fmean(counts) if counts else None


def _undecided(tried: Experiment, why: str) -> None:
    tried.outcome, tried.reason = Outcome.UNDECIDED, why
