"""The search itself: which point is tried next, what is dropped unseen, and when the budget of compiles ends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product

from tpuprof.errors import TpuprofError
from tpuprof.preflight.search.choices import SETTING, SWITCH, TRY, Axis, Choice, Point, label_of
from tpuprof.preflight.search.flags import Flag, flag_of
from tpuprof.preflight.search.front import (
    COMPILED,
    DROPPED,
    FAILED,
    OTHER_WORK,
    SAME,
    TOO_LARGE,
    Result,
    comparable,
    front,
)
from tpuprof.preflight.search.own import Offered
from tpuprof.preflight.trying_names import OFFLOAD, REMAT, SCAN, SCAN_REMAT
from tpuprof.units import format_share

# Share of the budget that settings of the script may take where flags are to be tried too.
SETTINGS_SHARE = 0.6
# Gain from which a change is worth combining with others, and the best one worth naming (share of the step).
GAIN_FROM = 0.01
# Share of the products of the script as it is, per sample, below which a setting makes another training of it.
WORK_FROM = 0.9
# Matrix products whose precision a script can choose.
FLOAT32 = "f32 x f32"

Evaluate = Callable[[Point, bool], Result]
Progress = Callable[[str], None]


@dataclass
class Found:
    """All that a search of one slice tried, in order; the first is the script as it is.

    `winner` was compiled `again` from the changed script, without the cache. `left` counts points that the budget did
    not reach.
    """

    target: str
    tried: list[Result] = field(default_factory=list)
    winner: Result | None = None
    again: Result | None = None
    left: int = 0
    interrupted: bool = False

    @property
    def base(self) -> Result | None:
        """The script as it is."""
        return self.tried[0] if self.tried else None

    @property
    def front(self) -> list[Result]:
        """What nothing else beats."""
        return front(self.tried)

    @property
    def compiles(self) -> int:
        """Programs that were compiled and not in the cache."""
        return sum(each.compiles for each in [*self.tried, *([self.again] if self.again else [])])


@dataclass
class Search:
    """One slice's search. `evaluate` traces and compiles a point; its second argument leaves the cache out.

    `offers` says what the script offers by itself, once its trace is known.
    """

    found: Found
    axes: list[Axis]
    flags: tuple[Flag, ...]
    precisions: tuple[Choice, ...]
    evaluate: Evaluate
    budget: int
    progress: Progress
    offers: Callable[[], Offered] = Offered

    def run(self) -> Found:
        """Search until all is tried, the budget is spent, or Ctrl-C: what was found until then counts."""
        try:
            base = self._try(())
            if base.status == FAILED and not self.axes:
                return self.found
            self._settings()
            self._by_itself()
            self._confirm()
        except KeyboardInterrupt:
            self.found.interrupted = True
        return self.found

    def _settings(self) -> None:
        own = bool(self.flags or self.precisions)
        limit = round(self.budget * SETTINGS_SHARE) if own else self.budget - 1
        for point in grid(self.axes):
            reason = doomed(point, self.found.tried)
            if reason:
                self._add(Result(point, DROPPED, why=reason))
            elif self.found.compiles < limit:
                self._try(point)
            else:
                self.found.left += 1

    def _by_itself(self) -> None:
        """Improve on the best settings: what the script offers, then precision and flags, then what saves memory."""
        if self.found.base is None or self.found.base.status not in (COMPILED, TOO_LARGE):
            return
        offers = self.offers()
        if self._best() is None:
            # Nothing fits so far: memory comes first.
            for choice in (*offers.smaller, *offers.faster):
                self._try_in_budget((choice,))
                if self._best() is not None:
                    break
        self._improve(list(offers.faster))
        best = self._best()
        if best is None:
            return
        candidates = [*(self.precisions if FLOAT32 in best.products else ())]
        candidates += [each.choice for each in self.flags if best.collectives or not each.collectives]
        self._improve(candidates)
        self._improve(list(offers.smaller))

    def _improve(self, candidates: list[Choice]) -> None:
        """Try each candidate alone on top of the best point, then the helpful ones together."""
        best = self._best()
        if best is None:
            return
        gains: list[tuple[float, Choice]] = []
        ended: set[str] = set()
        for choice in candidates:
            if choice.name in ended or any(_excludes(choice, each) for each in best.point):
                continue
            result = self._try_in_budget((*best.point, choice))
            if result is not None and result.cost_ms < (1 - GAIN_FROM) * best.cost_ms:
                gains.append((result.cost_ms, choice))
            elif choice.is_batch:
                # A larger batch than one that gained nothing is not tried.
                ended.add(choice.name)
        helpful = [choice for _, choice in sorted(gains, key=lambda pair: (pair[0], pair[1].name))]
        chosen = helpful[:1]
        for choice in helpful[1:]:
            if any(_excludes(choice, each) for each in chosen):
                continue
            before = self._best()
            result = self._try_in_budget((*best.point, *chosen, choice))
            if result is not None and before is not None and result.cost_ms < before.cost_ms:
                chosen.append(choice)

    def _confirm(self) -> None:
        """Compile the fastest point again, from the changed script and without the cache."""
        base, best = self.found.base, self._best()
        if base is None or best is None or best is base:
            return
        gain = gain_of(best, base)
        if gain is not None and gain < GAIN_FROM:
            return
        self.found.winner = best
        self.progress(f"compiling the fastest again from the changed script: {label_of(best.point)}")
        try:
            self.found.again = self.evaluate(best.point, True)
        except TpuprofError as error:
            self.found.again = Result(best.point, FAILED, why=str(error))

    def _try_in_budget(self, point: Point) -> Result | None:
        reason = doomed(point, self.found.tried)
        if reason:
            return self._add(Result(point, DROPPED, why=reason))
        # One compile is kept for the winner.
        if self.found.compiles >= self.budget - 1:
            self.found.left += 1
            return None
        return self._try(point)

    def _try(self, point: Point) -> Result:
        self.progress(
            f"{self.found.target}: {label_of(point)} ({self.found.compiles} of {self.budget} compiles)"
        )
        try:
            result = self.evaluate(point, False)
        except TpuprofError as error:
            if not point and not self.axes:
                raise
            result = Result(point, FAILED, why=str(error))
        twin = next((each for each in self.found.tried if each.programs and _same(each, result)), None)
        if twin is not None and point:
            # So the script's own batch is known where a value of the search gives the same program.
            twin.samples = twin.samples or result.samples
            result = replace(result, status=SAME, why=f"the same program as {label_of(twin.point)}")
        return self._add(self._compared(result))

    def _compared(self, result: Result) -> Result:
        """The result, or why its time says nothing: a setting that the search found makes a step of less work."""
        base = self.found.base
        if base is None or not base.flops or not result.fits or result.flops is None:
            return result
        if not any(
            each.by_itself and each.kind in (SETTING, SWITCH) and "+" not in each.name
            for each in result.point
        ):
            return result
        share = (result.flops / (result.samples or 1)) / (base.flops / (base.samples or 1))
        if share >= WORK_FROM:
            return result
        return replace(
            result,
            status=OTHER_WORK,
            why=f"its step has {format_share(share)} of the products per sample: another training",
        )

    def _add(self, result: Result) -> Result:
        self.found.tried.append(result)
        return result

    def _best(self) -> Result | None:
        return min(comparable(self.found.tried), key=lambda each: each.cost_ms, default=None)


def gain_of(result: Result, base: Result) -> float | None:
    """Share of the base's predicted time (per sample where known) that a point saves; None where that is unknown."""
    if not (result.fits and base.fits) or (result.samples is None) != (base.samples is None):
        return None
    return 1 - result.cost_ms / base.cost_ms if base.cost_ms else None


def grid(axes: list[Axis]) -> list[Point]:
    """All combinations of the axes' values: those nearest to the first values before those that change more."""
    points = []
    for numbers in product(*(range(len(axis.values)) for axis in axes)):
        point = tuple(Choice(axis.name, axis.values[row]) for axis, row in zip(axes, numbers, strict=True))
        points.append((sum(1 for row in numbers if row), numbers, point))
    return [point for _, _, point in sorted(points, key=lambda each: each[:2]) if point]


def doomed(point: Point, tried: list[Result]) -> str:
    """Why a point cannot fit: one with a smaller number did not, and memory was seen to grow with it; else empty."""
    for each in tried:
        if each.status != TOO_LARGE:
            continue
        name = _only_smaller(each.point, point)
        if name and _grows_with(name, tried):
            return f"{label_of(each.point)} does not fit, and memory grows with {name}"
    return ""


def _only_smaller(one: Point, other: Point) -> str:
    """The name of the only setting in which they differ, where the first has the smaller number; else empty."""
    differ = [(a, b) for a, b in zip(one, other, strict=False) if a != b]
    if len(one) != len(other) or len(differ) != 1 or differ[0][0].name != differ[0][1].name:
        return ""
    try:
        return differ[0][0].name if float(differ[0][0].value) < float(differ[0][1].value) else ""
    except ValueError:
        return ""


def _grows_with(name: str, tried: list[Result]) -> bool:
    seen = False
    for one in tried:
        for other in tried:
            if (
                one.hbm is not None
                and other.hbm is not None
                and _only_smaller(one.point, other.point) == name
            ):
                if other.hbm <= one.hbm:
                    return False
                seen = True
    return seen


def _same(one: Result, other: Result) -> bool:
    """Whether two points gave one program: the same graphs, time and memory."""
    return (one.programs, one.step_ms, one.hbm) == (other.programs, other.step_ms, other.hbm)


def _excludes(one: Choice, other: Choice) -> bool:
    first, second = flag_of(one), flag_of(other)
    if first is not None and second is not None:
        return first.group == second.group
    if one.name == other.name:
        return True
    # Layers are recomputed or looped over in one way.
    layers = {REMAT, OFFLOAD, SCAN, SCAN_REMAT}
    return one.kind == other.kind == TRY and one.name in layers and other.name in layers
