"""Writes docs/zoo.md: a table of what is true of each program and what tpuprof said of it."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable

from runner import cures, own_share, turns
from runner.execute import ROOT
from runner.overhead import Overhead, between_runs, over_all, overhead
from runner.result import Result, kept
from runner.truth import HOME, Truth, load, names
from tpuprof.units import format_ms

PAGE = ROOT / "docs" / "zoo.md"
_COLUMNS = (
    *("program", "true", "said", "result", "own step, reported step", "steps outside the capture"),
    *("tpuprof's own work there", "cures"),
)
# The copy that a program is run from.
_SCRATCH = re.compile(r"/tmp/tmp\w+/")


def line(truth: Truth, result: Result) -> str:
    """A program's result as one line of text."""
    if result.skipped:
        return f"{truth.name:26} skipped: {result.skipped}"
    answer, cost = result.answer, cost_of(truth)
    told = f"{answer.bound}, {answer.first or 'none'} ({answer.confidence})" if answer else "no capture"
    parts = [f"{truth.name:26} {result.word.upper() if result.faults else result.word:10} {told}"]
    parts += [str(cost)] if cost else []
    measured = cures.text(truth)
    parts += [measured] if measured else []
    return "; ".join(parts + result.faults)


def write() -> None:
    """Write the page from all results there are."""
    rows = [(truth, result) for truth in map(load, names()) if (result := kept(truth)) is not None]
    count = Counter("skipped" if result.skipped else result.word for _truth, result in rows)
    head = (HOME / "page.head.md").read_text("utf-8").rstrip()
    total = ", ".join(f"{number} {word}" for word, number in count.most_common())
    table = [_line(_COLUMNS), _line("---" for _column in _COLUMNS)]
    between = between_runs(shares([truth for truth, _result in rows]))
    table += [_row(truth, result, between) for truth, result in rows]
    summary = [f"{len(rows)} of {len(names())} programs were run: {total}.", *_missing(rows)]
    summary += [outside_steps([truth for truth, _result in rows])[1]]
    summary += own_work([truth for truth, _result in rows])
    PAGE.write_text("\n".join([head, "", *summary, "", *table, "", *_made(rows)]), "utf-8")


def cost_of(truth: Truth, between: float | None = None) -> Overhead | None:
    """What tpuprof costs the program's steps outside the capture; None where it was not measured."""
    measured = turns.kept(truth)
    return overhead(measured.pairs, between) if measured else None


def shares(truths: list[Truth]) -> list[float]:
    """What tpuprof costs the steps outside the capture (a share of the step), of each program that was measured."""
    return [cost.share for truth in truths if (cost := cost_of(truth)) is not None]


def outside_steps(truths: list[Truth]) -> tuple[Overhead | None, str]:
    """What tpuprof costs the steps outside the capture over all programs, and a sentence that says so."""
    of_each = shares(truths)
    over, between = over_all(of_each), between_runs(of_each)
    if over is None or between is None:
        return None, f"Steps outside the capture: measured of {len(of_each)} programs, too few to judge 1 %."
    answer = {
        "fine": "no slower than 1 %",
        "slow": "slower by more than 1 %",
        "unclear": "undecided, because runs differ too much to judge 1 %",
    }[over.word]
    return over, (
        f"Steps outside the capture, median of {over.pairs} programs: {over.share:+.1%} ± {over.half:.1%}, {answer}. "
        f"Two runs of one program differ by {between:.1%} (standard deviation)."
    )


def own_work(truths: list[Truth]) -> list[str]:
    """What of the steps behind the capture is tpuprof's own work over all programs that were sampled; empty if none."""
    told = {truth.name: own for truth in truths if (own := own_share.kept(truth)) is not None}
    if not told:
        return []
    most = max(told, key=lambda name: told[name].share)
    unsure = [name for name in told if told[name].word != "fine"]
    return [
        f"tpuprof's own work behind the capture, sampled in {len(told)} programs: median "
        f"{statistics.median(own.share for own in told.values()):.2%} of the time, most {told[most].share:.2%} "
        f"({most}). Surely below 1 %: {len(told) - len(unsure)}"
        + (f"; not sure: {', '.join(unsure)}." if unsure else ".")
    ]


def _missing(rows: list[tuple[Truth, Result]]) -> list[str]:
    """Programs without a result: a page that leaves them out would look complete."""
    left = sorted(set(names()) - {truth.name for truth, _result in rows})
    return [f"No result yet: {', '.join(left)}."] if left else []


def _row(truth: Truth, result: Result, between: float | None) -> str:
    if result.skipped:
        return f"| {truth.name} | {_cell(truth.what)} | | skipped: {result.skipped} | | | | |"
    answer = result.answer
    said = f"{_cell(answer.sentence)} First: {answer.first or 'nothing'}" if answer else "no capture"
    said += f" ({answer.confidence})." if answer and answer.first else "."
    times = f"{_ms(result.own_ms)}, {_ms(answer.median_ms if answer else None)}"
    word = "; ".join([result.word, *map(_cell, result.faults)])
    cost, own = cost_of(truth, between), own_share.kept(truth)
    costs = [str(cost or ""), own.short if own else ""]
    cells = [truth.name, _cell(truth.what), said, word, times, *costs, _cell(cures.text(truth))]
    return _line(cells)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _made(rows: list[tuple[Truth, Result]]) -> list[str]:
    versions: dict[str, str] = {}
    for _truth, result in rows:
        versions.update(result.versions)
    machines = sorted({result.machine for _truth, result in rows if result.machine})
    revisions = sorted({result.revision for _truth, result in rows if result.revision})
    with_versions = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    loads = [result.load for _truth, result in rows if not result.skipped]
    busy = f" Load average of the machine: {min(loads):.0f} to {max(loads):.0f}." if loads else ""
    return [
        f"Machine: {'; '.join(machines)}.{busy} Versions: {with_versions}. Revisions: {', '.join(revisions)}.",
        "",
    ]


def _ms(value: float | None) -> str:
    return format_ms(value) if value is not None else "unknown"


def _cell(text: str) -> str:
    return " ".join(_SCRATCH.sub("", text).replace("|", "\\|").split())
