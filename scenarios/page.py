"""The page of a framework's scenarios: a table of what was found, predicted and measured."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING

import places

from tpuprof.units import format_ms

if TYPE_CHECKING:
    from run import Result

PAGES = Path(__file__).resolve().parent.parent / "docs"


def write_page(place: places.Place, results: list[Result], known_within: float) -> None:
    """Write a framework's page from the results of all its scenarios."""
    head = (place.path / "page.head.md").read_text("utf-8").rstrip()
    rows = ["| scenario | rule that must be first | found | step: faulty, cured | predicted of captured step "
            "| predicted saving | measured saving (95 %) | off by |", "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    rows += [row_of(result) for result in results]
    errors = [abs(each.error) for each in results if each.known and each.error is not None]
    summary = (
        f"Median error over the {len(errors)} pairs whose saving is known to within {known_within:.0%}: "
        f"{statistics.median(errors):.0%}; the largest is {max(errors):.0%}."
        if errors
        else "No saving is known well enough yet to compare a prediction with."
    )
    machines = sorted({result.machine for result in results})
    named = ["", f"Machine: {'; '.join(machines)}."] if machines else []
    waits = [share for each in results for share in each.cpu_wait]
    if waits:
        named += ["", f"Threads of the captured scripts waited for a CPU for {min(waits):.0%} to {max(waits):.0%} of "
                  f"the time that they could have run, {statistics.median(waits):.0%} in the median."]  # fmt: skip
    page = PAGES / f"scenarios{'-' + place.folder.replace('_', '-') if place.folder else ''}.md"
    page.write_text("\n".join([head, "", *rows, "", summary, *named]) + "\n", "utf-8")


def row_of(result: Result) -> str:
    """A scenario's result as a row of the table."""
    wrong = f"no: {result.first or 'nothing'} at {_file(result.source) or 'no line'}"
    found = "yes" if result.found else f"{wrong}; cured: {', '.join(result.cured_failed)}"
    found += f", at {_file(result.source)}" if result.found and result.line else ""
    times, measured, off = "", result.unmeasured, ""
    if result.saving and not result.unmeasured:
        mean, half = result.saving
        times = f"{format_ms(statistics.fmean(result.faulty))}, {format_ms(statistics.fmean(result.cured))}"
        measured = f"{mean:.0%} ± {half:.0%}"
        off = f"{result.error:+.0%}" if result.error is not None and result.known else "not known well enough"
    name = result.name.rpartition("/")[2] + (" (a start)" if result.measure == "start" else "")
    predicted = _range(result.predicted) if result.predicted else ""
    predicted += f" of {format_ms(result.captured_ms)}" if predicted and result.captured_ms else ""
    share = share_of(result.predicted_share) if result.predicted_share else ""
    return f"| {name} | {result.rule or 'none'} | {found} | {times} | {predicted} | {share} | {measured} | {off} |"


def _file(source: str) -> str:
    return source.rpartition("/")[2]


def _range(bounds: tuple[float, float]) -> str:
    low, high = (format_ms(each) for each in bounds)
    return low if low == high else f"{low} to {high}"


def share_of(bounds: tuple[float, float]) -> str:
    """A range of shares: `33 %` or `33% to 40%`."""
    low, high = (f"{each:.0%}" for each in bounds)
    return low if low == high else f"{low} to {high}"
