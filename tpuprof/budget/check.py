"""Budgets: what a run must keep to, from tpuprof.toml, checked against a Report.

[budget]
step_time_median = { max = 120 }                       # ms
tracing_share    = { max = 0.10, level = "warn" }
step_time_p95    = { tolerance = 0.10 }                # against --baseline: at most 10 % more
recompiles       = { max = 0 }

[findings]
any = { min_severity = 0.05 }                          # any failed finding of that weight
recompilation = { level = "warn" }                     # one rule, at any weight
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuprof.budget.quantities import SIGNALS, Reading, Signal
from tpuprof.errors import Code, TpuprofError
from tpuprof.report.labels import main_places
from tpuprof.units import format_bytes, format_ms, format_share

if TYPE_CHECKING:
    from tpuprof.report.schema import CompileRow, Finding, Report

FILE = "tpuprof.toml"
ANY = "any"
_NUMBERS = ("max", "min", "tolerance", "min_severity")
_KEYS = {"budget": {"max", "min", "tolerance", "level"}, "findings": {"min_severity", "level"}}
# A share is a part of a whole: a limit above this always holds, or never (share). Percents are taken for shares easily.
_WHOLE = 1.0
_PROFILES = Path(__file__).resolve().parent / "profiles"


class Level(StrEnum):
    """What a broken assertion does: `error` fails the check, `warn` is printed, `off` is not looked at."""

    ERROR = "error"
    WARN = "warn"
    OFF = "off"


class Status(StrEnum):
    """What became of an assertion. `unavailable` counts as broken: what was not measured has not passed."""

    PASSED = "passed"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True)
class Assertion:
    """One line of a budget: an id (`budget.tracing_share`), its kind (`max`), its number, its level."""

    id: str
    kind: str
    limit: float
    level: Level


@dataclass(frozen=True)
class Result:
    """An assertion checked against a run. `found` and `values` are as people read them; `place` is `file:line`."""

    assertion: Assertion
    status: Status
    expected: str
    found: str
    values: list[str] = field(default_factory=list)
    advice: str = ""
    place: str = ""

    @property
    def fails(self) -> bool:
        """Whether this makes the check fail."""
        return self.status is not Status.PASSED and self.assertion.level is Level.ERROR


def read_budget(path: Path) -> list[Assertion]:
    """The assertions of a tpuprof.toml, or of a profile by its name.

    Raises `TpuprofError`: `input-not-found`, `budget-invalid` for what it does not understand, with the place.
    """
    path = _profile(path)
    try:
        plain = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise TpuprofError(
            Code.NOT_FOUND,
            f"{path}: no such budget.",
            f"Write one (see docs/check.md), or give --budget its path or a profile: {', '.join(profiles())}.",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TpuprofError(Code.BUDGET, f"{path}: is not TOML ({error}).", "Correct it.") from error
    except OSError as error:
        raise TpuprofError(
            Code.UNREADABLE, f"{path}: cannot be read ({error.strerror}).", "Check it."
        ) from error
    unknown = plain.keys() - _KEYS.keys()
    if unknown:
        raise _invalid(
            path, f"[{sorted(unknown)[0]}] is not a section", "Sections are [budget] and [findings]."
        )
    found = [
        assertion
        for section in _KEYS
        for name, entry in _section(path, plain, section).items()
        for assertion in _assertions(path, section, name, entry)
    ]
    if not found:
        raise _invalid(path, "it asserts nothing", "Add a line such as: recompiles = { max = 0 }.")
    return [each for each in found if each.level is not Level.OFF]


def profiles() -> list[str]:
    """Names of the budgets that come with tpuprof."""
    return sorted(path.stem for path in _PROFILES.glob("*.toml"))


def _profile(path: Path) -> Path:
    """The path; of a name alone that no file has, the profile of that name."""
    if path.exists() or path.suffix or path.name not in profiles() or len(path.parts) > 1:
        return path
    return _PROFILES / f"{path.name}.toml"


def check(assertions: list[Assertion], report: Report, baseline: Report | None = None) -> list[Result]:
    """Check a report against assertions, in their order. Raises nothing: what cannot be known is a result."""
    return [_check(each, report, baseline) for each in assertions]


def show(value: float, unit: str) -> str:
    """A signal's value as people read it."""
    if unit == "ms":
        return format_ms(value)
    if unit == "share":
        return format_share(value)
    return format_bytes(value) if unit == "bytes" else f"{value:g}"


def _section(path: Path, plain: dict[str, Any], name: str) -> dict[str, Any]:
    section = plain.get(name, {})
    if not isinstance(section, dict):
        raise _invalid(path, f"{name} is not a section", f"Write [{name}] on a line of its own.")
    return section


def _assertions(path: Path, section: str, name: str, entry: Any) -> list[Assertion]:
    place = f"{section}.{name}"
    if not isinstance(entry, dict):
        raise _invalid(path, f"{place} is {entry!r}", f"Write for example: {name} = {{ max = 1 }}.")
    unknown = entry.keys() - _KEYS[section]
    if unknown:
        words = ", ".join(sorted(_KEYS[section]))
        raise _invalid(path, f"{place} says {sorted(unknown)[0]!r}", f"It may say {words}.")
    if section == "budget" and name not in SIGNALS:
        raise _invalid(path, f"{place} is not a signal", f"Signals: {', '.join(SIGNALS)}.")
    try:
        level = Level(entry.get("level", Level.ERROR))
    except ValueError as error:
        raise _invalid(
            path, f"{place} has level {entry['level']!r}", "It may be error, warn or off."
        ) from error
    kinds = [(kind, entry[kind]) for kind in _NUMBERS if kind in entry]
    for kind, number in kinds:
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < float("inf"):
            raise _invalid(path, f"{place}.{kind} is {number!r}", "It must be a number, zero or more.")
        if number > _WHOLE and _is_share(section, name, kind):
            raise _invalid(path, f"{place}.{kind} is {number!r}", "It is a share: 0 to 1, where 0.05 is 5 %.")
    if not kinds and level is not Level.OFF and section == "budget":
        raise _invalid(path, f"{place} says no limit", "Give it max, min or tolerance.")
    return [Assertion(place, kind, float(number), level) for kind, number in kinds or [("min_severity", 0.0)]]


def _is_share(section: str, name: str, kind: str) -> bool:
    """Whether a number of a budget says a part of a whole: no share can be more, and nothing can fall by more."""
    if section == "findings":
        return True
    signal = SIGNALS[name]
    return not signal.lower_is_better if kind == "tolerance" else signal.unit == "share"


def _invalid(path: Path, what: str, hint: str) -> TpuprofError:
    return TpuprofError(Code.BUDGET, f"{path}: {what}.", hint)


def _check(assertion: Assertion, report: Report, baseline: Report | None) -> Result:
    section, _, name = assertion.id.partition(".")
    if section == "findings":
        return _check_findings(assertion, name, report)
    signal = SIGNALS[name]
    reading = signal.read(report)
    if reading.value is None:
        return _unavailable(assertion, signal, reading.unavailable)
    if assertion.kind == "tolerance":
        return _check_baseline(assertion, signal, reading, baseline)
    kept = reading.value <= assertion.limit if assertion.kind == "max" else reading.value >= assertion.limit
    sign = "≤" if assertion.kind == "max" else "≥"
    return _result(assertion, signal, reading, kept, f"{sign} {show(assertion.limit, signal.unit)}", report)


def _check_baseline(
    assertion: Assertion, signal: Signal, reading: Reading, baseline: Report | None
) -> Result:
    if baseline is None:
        advice = (
            "Give the report to compare with: --baseline base.json (from `tpuprof report RUN -o base.json`)."
        )
        return Result(assertion, Status.UNAVAILABLE, _within(assertion, signal), "no baseline", advice=advice)
    old = signal.read(baseline)
    if old.value is None or reading.value is None:
        return _unavailable(assertion, signal, f"in the baseline: {old.unavailable}")
    factor = 1 + assertion.limit if signal.lower_is_better else 1 - assertion.limit
    limit = old.value * factor
    kept = reading.value <= limit if signal.lower_is_better else reading.value >= limit
    sign = "≤" if signal.lower_is_better else "≥"
    known = f"baseline {show(old.value, signal.unit)}, {_within(assertion, signal)}"
    expected = f"{sign} {show(limit, signal.unit)} ({known})"
    return _result(assertion, signal, reading, kept, expected, None)


def _within(assertion: Assertion, signal: Signal) -> str:
    return f"at most {format_share(assertion.limit)} {'more' if signal.lower_is_better else 'less'}"


def _result(
    assertion: Assertion, signal: Signal, reading: Reading, kept: bool, expected: str, report: Report | None
) -> Result:
    assert reading.value is not None
    return Result(
        assertion,
        Status.PASSED if kept else Status.FAILED,
        expected,
        show(reading.value, signal.unit),
        [show(value, signal.unit) for value in reading.values],
        advice="" if kept else _cause(signal.name, report),
        place="" if kept else _place(signal.name, report),
    )


def _unavailable(assertion: Assertion, signal: Signal, reason: str) -> Result:
    return Result(
        assertion,
        Status.UNAVAILABLE,
        _within(assertion, signal)
        if assertion.kind == "tolerance"
        else f"{assertion.kind} {show(assertion.limit, signal.unit)}",
        "unavailable",
        advice=f"{reason}.".replace("..", "."),
    )


def _cause(signal: str, report: Report | None) -> str:
    """What made it so, where the report names one thing."""
    if report is None:
        return ""
    if signal == "recompiles":
        row = _first_recompile(report)
        return f"step {row.step}: {row.cause.kind}, {row.cause.detail}" if row else ""
    if signal in ("host_reads_per_step", "device_to_host_share") and report.host_reads:
        return (
            f"most of it: {report.host_reads[0].call} at {report.host_reads[0].source or 'an unknown line'}"
        )
    return report.verdict.sentence


def _first_recompile(report: Report) -> CompileRow | None:
    """The first compile inside a step. There is none where a budget asks for more compiles than there were."""
    return next((row for row in report.compiles if row.step is not None), None)


def _place(signal: str, report: Report | None) -> str:
    if report is None:
        return ""
    if signal == "recompiles":
        row = _first_recompile(report)
        return row.cause.place if row else ""
    if signal in ("host_reads_per_step", "device_to_host_share") and report.host_reads:
        return report.host_reads[0].source
    return ""


def _check_findings(assertion: Assertion, rule: str, report: Report) -> Result:
    expected = f"none of severity ≥ {format_share(assertion.limit)}" if assertion.limit else "none"
    looked_at = [each for each in report.findings if rule in (ANY, each.rule)]
    if not looked_at:
        what = (
            "no rules were run on this report" if rule == ANY else f"no rule {rule!r} was run on this report"
        )
        advice = f"{what}; analyze it with this version of tpuprof, and see `tpuprof rules` for their names."
        return Result(assertion, Status.UNAVAILABLE, expected, "unavailable", advice=advice)
    failed = [each for each in looked_at if each.status == "failed" and each.severity >= assertion.limit]
    failed.sort(key=lambda each: -each.severity)
    blind = [each for each in looked_at if each.status in ("unavailable", "error")]
    if not failed and blind and rule != ANY:
        return Result(assertion, Status.UNAVAILABLE, expected, "unavailable", advice=blind[0].reason)
    return Result(
        assertion,
        Status.FAILED if failed else Status.PASSED,
        expected,
        str(len(failed)) if failed else "none",
        [f"{each.rule} {format_share(each.severity)}" for each in failed],
        advice=failed[0].title if failed else "",
        place=_source(failed[0]) if failed else "",
    )


def _source(finding: Finding) -> str:
    return next(iter(main_places(finding)), "")
