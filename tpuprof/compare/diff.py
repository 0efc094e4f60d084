"""Compares two Reports: first whether they compare, then what changed beyond noise."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tpuprof.compare import predicted as diff_predicted
from tpuprof.compare.comparability import Unlike, Weight, slowed_down, unlike
from tpuprof.compare.decision import COMPILES, STEPS, CompileChange, Decision, Outcome, decide, large_enough
from tpuprof.compare.noise import Change, Floats, compare, means, medians, percentiles_95, two_by_two
from tpuprof.report.labels import HELD_UP_ELSEWHERE
from tpuprof.units import format_ms, format_share

if TYPE_CHECKING:
    from tpuprof.report.schema import Finding, OpRow, Report

SCHEMA = "tpuprof.diff/1"
# A change of step time smaller than this is not called a change, whatever its bounds: two processes running the
# same script differ (memory layout, clock, neighbours), and no bootstrap within one run sees that. A judgement, not
# yet measured on TPU; benchmarks/same_script_diffs.py measures it (share of the faster run's step).
MIN_CHANGE = 0.05
# The same on PJRT_DEVICE=CPU, where the "device" shares its cores with the host and all else that runs. Measured by
# benchmarks/same_script_diffs.py: the slowest of 11 runs of one script on two idle virtual cores took 58 % longer than
# the fastest. With rivals, their part counts where it is more, see `slowed_down` and docs/diff.md (share).
MIN_CHANGE_CPU = 0.60
# Above this many times what there was, a change is a time alone: relative to next to nothing it tells nothing (ratio).
MOST_RATIO = 10.0
# A part of the breakdown counts as changed from this share of the step on (share of the base's mean step).
MIN_PART_CHANGE = 0.02
# An op counts as changed from this share of the step on (share of the base's mean step).
MIN_OP_CHANGE = 0.01
# A finding whose severity moved by more than this has changed (share of step time).
MIN_SEVERITY_CHANGE = 0.05
_NUMBERS = re.compile(r"(?:\.\d+|\.clone|\.remat\d*)+$")
_LINE = re.compile(r":\d+$")


@dataclass(frozen=True)
class PartChange:
    """One part of the breakdown, mean ms per step."""

    name: str
    change: Change
    changed: bool


@dataclass(frozen=True)
class OpChange:
    """Ops alike in both runs (same kind, scope or source file, whatever the program's fingerprint), ms per step."""

    op: str
    where: str
    base_ms: float | None
    candidate_ms: float | None


@dataclass(frozen=True)
class FindingChange:
    """A finding that is new, fixed or changed. `predicted` is what the base's rule expected a fix to save."""

    rule: str
    what: str
    title: str
    base_severity: float
    candidate_severity: float
    predicted_ms: tuple[float, float] | None = None


@dataclass(frozen=True)
class Comparison:
    """All that `tpuprof diff` says. Times in ms; changes are candidate less base."""

    outcome: Outcome
    sentence: str
    unlike: list[Unlike]
    median: Change | None = None
    mean: Change | None = None
    p95: Change | None = None
    steady: Change | None = None
    threshold: float = MIN_CHANGE
    parts: list[PartChange] = field(default_factory=list)
    ops: list[OpChange] = field(default_factory=list)
    findings: list[FindingChange] = field(default_factory=list)
    compiles: CompileChange | None = None
    memory: tuple[int | None, int | None] = (None, None)
    base_bound: str = ""
    candidate_bound: str = ""
    predicted: bool = False
    schema: str = SCHEMA

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON-ready dictionaries."""
        plain = asdict(self)
        for name in ("median", "mean", "p95", "steady"):
            if plain[name]:
                plain[name] |= _derived(getattr(self, name))
        for row, part in zip(plain["parts"], self.parts, strict=True):
            row["change"] |= _derived(part.change)
        return {"schema": plain.pop("schema"), **plain}


def diff(base: Report, candidate: Report) -> Comparison:
    """Compare two runs; nothing is raised for unlike ones, the comparison says so."""
    found = _measured(base, candidate)
    both = base.predicted and candidate.predicted
    return _predicted(found) if both and found.outcome is not Outcome.UNFAIR else found


def _predicted(found: Comparison) -> Comparison:
    """The comparison without what is said of noise: the steps of a prediction are one estimate, repeated."""
    assert found.mean is not None
    outcome = Outcome.SAME
    if large_enough(found.mean, found.threshold):
        outcome = Outcome.WORSE if found.mean.delta > 0 else Outcome.BETTER
    bare: dict[str, Any] = {
        name: diff_predicted.without_bounds(change)
        for name in ("median", "mean", "p95", "steady")
        if (change := getattr(found, name)) is not None
    }
    return replace(
        found,
        **bare,
        outcome=outcome,
        sentence=diff_predicted.sentence(outcome, found.mean, found.threshold),
        parts=diff_predicted.without_bounds_in(found.parts, MIN_PART_CHANGE * found.mean.base),
        predicted=True,
    )


def _measured(base: Report, candidate: Report) -> Comparison:
    differences = unlike(base, candidate)
    stop = [each for each in differences if each.weight is Weight.STOP]
    if stop:
        reasons = "; ".join(
            f"{each.what} {each.base} against {each.candidate}: {each.detail}" for each in stop
        )
        return Comparison(Outcome.UNFAIR, f"Not comparable: {reasons}.", differences)
    least = MIN_CHANGE_CPU if "CPU" in _devices(base, candidate) else MIN_CHANGE
    threshold = max(least, slowed_down(base, candidate))
    median, mean, p95 = (
        compare(_wall(base), _wall(candidate), each) for each in (medians, means, percentiles_95)
    )
    steady = [
        compare(two_by_two(_steady(base)), two_by_two(_steady(candidate)), medians),
        compare(_steady(base), _steady(candidate), means),
    ]
    compiles = _compiles(base, candidate)
    decision = decide(steady, mean, compiles, threshold)
    findings = _findings(base, candidate)
    busy = threshold > least
    return Comparison(
        decision.outcome,
        _sentence(decision, compiles, findings, differences, _too_small(decision, threshold, busy)),
        differences,
        median,
        mean,
        p95,
        steady[0],
        threshold,
        _parts(base, candidate),
        _ops(base, candidate),
        findings,
        compiles,
        (base.memory.peak_bytes, candidate.memory.peak_bytes),
        base.verdict.bound,
        candidate.verdict.bound,
    )


def _derived(change: Change) -> dict[str, Any]:
    return {"delta": change.delta, "ratio": change.ratio, "beyond_noise": change.beyond_noise}


def _devices(*reports: Report) -> set[str]:
    return {str(report.environment.get("device_type")).upper() for report in reports}


def _wall(report: Report) -> Floats:
    rows = sorted(report.steps.per_step, key=lambda row: (row.host, row.start_ns))
    return np.array([row.wall_ms for row in rows], np.float64)


def _steady(report: Report) -> Floats:
    """Wall time of each step without its compiles, which are events to count and not noise of a step."""
    return _wall(report) - _part(report, "compile")


def _sentence(
    decision: Decision,
    compiles: CompileChange,
    findings: list[FindingChange],
    differences: list[Unlike],
    too_small: str,
) -> str:
    parts = [_head(decision, compiles), *([too_small] if too_small else [])]
    if compiles.outcome is not Outcome.SAME:
        parts.append(
            f"Compiles: {compiles.base} in {compiles.base_steps} steps, now {compiles.candidate} "
            f"in {compiles.candidate_steps}."
        )
    parts += [
        f"{each.what.capitalize()}: {each.title}." for each in findings if each.what in ("fixed", "new")
    ]
    care = [each.what for each in differences if each.weight is Weight.CARE]
    if care:
        parts.append(f"Note what else differs: {', '.join(care)}.")
    return " ".join(parts)


def _too_small(decision: Decision, threshold: float, busy: bool) -> str:
    """Why a change whose bounds exclude zero does not count, in a sentence; empty where there is no such change."""
    if decision.outcome is not Outcome.SAME or not decision.change.beyond_noise:
        return ""
    if busy:
        return f"{stretched(threshold)}, so this says nothing."
    share = format_share(threshold)
    return f"Two runs of the same script can differ as much: a change counts from {share} of the faster run's step on."


def _head(decision: Decision, compiles: CompileChange) -> str:
    outcome, change = decision.outcome, decision.change
    times = f"{format_ms(change.base)} to {format_ms(change.candidate)} per step{_bounds(change)}"
    if outcome is Outcome.UNKNOWN:
        advice = "Capture more steps of both to know: `tpuprof capture --steps 20`"
        return f"Cannot be judged: {decision.by}. The estimate is {times}. {advice}."
    if outcome is Outcome.SAME:
        seen = "change that counts" if change.beyond_noise else "difference beyond noise"
        return f"No {seen}: {times}."
    if decision.by == COMPILES and not change.beyond_noise:
        # A compile or two among a few steps: their number differs for certain, the mean step does not.
        return (
            f"{outcome.capitalize()} by its compiles; the mean step went from {times}, which could be chance."
        )
    compiled = decision.by == STEPS and (compiles.base or compiles.candidate)
    return f"{outcome.capitalize()}: {times}{', compiles left out' if compiled else ''}."


def counts_from(comparison: Comparison) -> str:
    """From which change of step time on it counts, in a sentence."""
    if comparison.threshold not in (MIN_CHANGE, MIN_CHANGE_CPU):
        return f"{stretched(comparison.threshold)}, so only a larger change counts, with bounds that exclude zero."
    share = format_share(comparison.threshold)
    return f"A change counts from {share} of the faster run's step on, with bounds that exclude zero."


def stretched(threshold: float) -> str:
    """What other work on the machine may have done to the steps of one of the runs."""
    times = f"{1 + threshold:.{0 if threshold >= 2 else 1}f}"
    return f"Other work on the machine may have made the steps of a run {times} times as long"


def _bounds(change: Change) -> str:
    ratio = f"{change.ratio * 100:+.1f} %".replace("-", "−") if change.ratio is not None else ""
    if change.low is None or change.high is None:
        return f" ({ratio}; too few steps for bounds)"
    return f" ({ratio}; 95 % bounds {signed_ms(change.low)} to {signed_ms(change.high)})"


def said(change: Change, counts: bool) -> str:
    """In words whether a change counts: one whose bounds exclude zero is no noise, however small."""
    if counts:
        return "changed"
    return "too small to count" if change.beyond_noise else "within noise"


def signed_ms(ms: float) -> str:
    """A change in ms with its sign."""
    return f"{'+' if ms > 0 else '−' if ms < 0 else ''}{format_ms(abs(ms))}"


def signed_share(share: float | None) -> str:
    """A relative change with its sign, empty where there is none, or where there was next to nothing before."""
    if share is None or share > MOST_RATIO:
        return ""
    return f"{'+' if share > 0 else '−' if share < 0 else ''}{format_share(abs(share))}"


def _parts(base: Report, candidate: Report) -> list[PartChange]:
    usual = float(_wall(base).mean())
    names = dict.fromkeys([*base.breakdown, *candidate.breakdown])
    rows = []
    for name in names:
        change = compare(_part(base, name), _part(candidate, name), means)
        rows.append(
            PartChange(name, change, change.beyond_noise and abs(change.delta) >= MIN_PART_CHANGE * usual)
        )
    shown = [row for row in rows if row.change.base or row.change.candidate]
    return sorted(shown, key=lambda row: -abs(row.change.delta))


def _part(report: Report, name: str) -> Floats:
    rows = sorted(report.steps.per_step, key=lambda row: (row.host, row.start_ns))
    return np.array([row.breakdown_ms.get(name, 0.0) for row in rows], np.float64)


def _ops(base: Report, candidate: Report) -> list[OpChange]:
    """Ops whose self time per step changed most; one capture each, so these have no bounds."""
    old, new = _op_times(base), _op_times(candidate)
    least = MIN_OP_CHANGE * float(_wall(base).mean())
    rows = [
        OpChange(key[0], key[1], old.get(key), new.get(key))
        for key in dict.fromkeys([*old, *new])
        if abs(new.get(key, 0.0) - old.get(key, 0.0)) >= least
    ]
    return sorted(rows, key=lambda row: -abs((row.candidate_ms or 0.0) - (row.base_ms or 0.0)))


def _op_times(report: Report) -> dict[tuple[str, str], float]:
    """Self time in steps, in ms per step on one device, by what an op is and where it comes from.

    The name's number and the program's fingerprint change from compile to compile, so neither counts; nor does the
    line within a source file, which any edit above it moves.
    """
    devices = max(int(report.environment.get("device_count") or 1), 1)
    share = 1 / (
        max(report.steps.all_hosts, 1) * (devices if report.environment.get("device_type") != "CPU" else 1)
    )
    times: dict[tuple[str, str], float] = defaultdict(float)
    for op in report.ops:
        # A report of an older version does not say what of it lies in steps.
        own = op.self_ms * share if op.self_ms_per_step is None else op.self_ms_per_step
        times[_op_key(op)] += own
    return dict(times)


def _op_key(op: OpRow) -> tuple[str, str]:
    stem = _NUMBERS.sub("", op.name) or op.name
    return stem, op.annotation or _LINE.sub("", op.source).rpartition("/")[2]


def _findings(base: Report, candidate: Report) -> list[FindingChange]:
    old, new = _failed(base), _failed(candidate)
    rows = []
    for rule in sorted(old.keys() | new.keys()):
        before, after = old.get(rule), new.get(rule)
        what = "fixed" if after is None else "new" if before is None else "changed"
        severities = (before.severity if before else 0.0, after.severity if after else 0.0)
        if what == "changed" and abs(severities[1] - severities[0]) <= MIN_SEVERITY_CHANGE:
            continue
        if what == "fixed" and not _was_checked(candidate, rule):
            what = "gone, but not checked"
        if what == "fixed" and _is_hidden(candidate, rule):
            what = "gone, but only hidden"
        known = after or before
        savings = before.savings if before is not None else None
        predicted = (savings.low, savings.high) if savings is not None else None
        rows.append(FindingChange(rule, what, known.title if known else rule, *severities, predicted))
    return rows


def _failed(report: Report) -> dict[str, Finding]:
    return {each.rule: each for each in report.findings if each.status == "failed"}


def _was_checked(report: Report, rule: str) -> bool:
    """Whether a rule came to a conclusion: one that was unavailable has not found its fault gone."""
    return any(each.rule == rule and each.status in ("passed", "not_applicable") for each in report.findings)


def _is_hidden(report: Report, rule: str) -> bool:
    """Whether the fault is still there, and a fix would gain little because something else holds the step up."""
    return any(each.rule == rule and each.reason.endswith(HELD_UP_ELSEWHERE) for each in report.findings)


def _compiles(base: Report, candidate: Report) -> CompileChange:
    counts = [sum(1 for row in report.compiles if row.step is not None) for report in (base, candidate)]
    steps = [report.steps.all_hosts for report in (base, candidate)]
    return CompileChange(counts[0], steps[0], counts[1], steps[1], _compile_outcome(counts, steps))


def _compile_outcome(counts: list[int], steps: list[int]) -> Outcome:
    """A capture begins when training is steady: one compile where there was none is a fault, not noise.

    Where both compile, the rates are compared exactly: given the total, the candidate's count is binomial if the
    rates are equal (Przyborowski and Wilenski 1940).
    """
    if counts[0] == counts[1] == 0:
        return Outcome.SAME
    if 0 in counts:
        return Outcome.BETTER if counts[1] == 0 else Outcome.WORSE
    total, share = sum(counts), steps[1] / sum(steps)
    if counts[1] > total * share:
        return Outcome.WORSE if _binomial_tail(total, counts[1], share) < 0.025 else Outcome.SAME
    return Outcome.BETTER if _binomial_tail(total, counts[0], 1 - share) < 0.025 else Outcome.SAME


def _binomial_tail(total: int, least: int, share: float) -> float:
    """The chance of at least `least` of `total`, each with chance `share`."""
    from math import comb

    return sum(comb(total, k) * share**k * (1 - share) ** (total - k) for k in range(least, total + 1))
