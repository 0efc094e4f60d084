"""Writes docs/zoo.md: a table of what is true of each program and what tpuprof said of it."""

from __future__ import annotations

import re
from collections import Counter

from runner import cures
from runner.execute import ROOT
from runner.result import Result, kept
from runner.truth import HOME, Truth, load, names

PAGE = ROOT / "docs" / "zoo.md"
# The copy that a program is run from.
_SCRATCH = re.compile(r"/tmp/tmp\w+/")


def line(truth: Truth, result: Result) -> str:
    """A program's result as one line of text."""
    if result.skipped:
        return f"{truth.name:26} skipped: {result.skipped}"
    answer, cost = result.answer, result.overhead
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
    table = ["| program | true | said | result | own step, reported step | steps outside the capture | cures |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    table += [_row(truth, result) for truth, result in rows]
    summary = [f"{len(rows)} of {len(names())} programs were run: {total}.", *_missing(rows)]
    PAGE.write_text("\n".join([head, "", *summary, "", *table, "", *_made(rows)]), "utf-8")


def _missing(rows: list[tuple[Truth, Result]]) -> list[str]:
    """Programs without a result: a page that leaves them out would look complete."""
    left = sorted(set(names()) - {truth.name for truth, _result in rows})
    return [f"No result yet: {', '.join(left)}."] if left else []


def _row(truth: Truth, result: Result) -> str:
    if result.skipped:
        return f"| {truth.name} | {_cell(truth.what)} | | skipped: {result.skipped} | | | |"
    answer = result.answer
    said = f"{_cell(answer.sentence)} First: {answer.first or 'nothing'}" if answer else "no capture"
    said += f" ({answer.confidence})." if answer and answer.first else "."
    times = f"{_ms(result.own_ms)}, {_ms(answer.median_ms if answer else None)}"
    word = "; ".join([result.word, *map(_cell, result.faults)])
    cost = result.overhead
    cells = [truth.name, _cell(truth.what), said, word, times, str(cost or ""), _cell(cures.text(truth))]
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
    return f"{value:.3g} ms" if value is not None else "unknown"


def _cell(text: str) -> str:
    return " ".join(_SCRATCH.sub("", text).replace("|", "\\|").split())
