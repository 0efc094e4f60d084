"""`tpuprof analyze --why` for people at a terminal, and what to measure next."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from tpuprof.render.triage import measurements, numbers_of
from tpuprof.report.schema import Report
from tpuprof.report.triage import VERDICT
from tpuprof.shown_text import printable

# Commands shown; the JSON has all (commands).
COMMANDS_SHOWN = 4
_INDENT = (0, 0, 0, 3)


def render_why(report: Report, console: Console) -> None:
    """Print each decision that the verdict made, and what would have changed it."""
    head = [Text(printable(report.verdict.sentence), style="bold"), Text()]
    console.print(Group(*head, *_decisions(report), *warning_lines(report)))


def warning_lines(report: Report) -> list[RenderableType]:
    """What makes the report less sure, a line each."""
    return [Text(f"! {printable(warning)}", style="yellow") for warning in report.warnings]


def _decisions(report: Report) -> list[RenderableType]:
    if not report.why:
        return [Text("No decision was made: there are no steps to compare anything with.", style="dim")]
    lines: list[RenderableType] = []
    for number, row in enumerate(report.why, 1):
        value, threshold = numbers_of(row)
        answer = f"{value}, {threshold}" if threshold else value
        lines += [
            Text.assemble((f"{number}. ", "dim"), printable(f"{row.question}: "), (answer, "bold")),
            Padding(Text(printable(f"so {row.follows}")), _INDENT, expand=False),
            Padding(Text(printable(row.changes_when), style="dim"), _INDENT, expand=False),
        ]
    return lines


def measure_next_lines(report: Report) -> list[RenderableType]:
    """What this run cannot tell, by the command that decides it; nothing where all is known."""
    found = [each for each in measurements(report) if each.command or VERDICT in each.decides]
    if not found:
        return []
    lines: list[RenderableType] = [Text("Measure next", style="bold")]
    for each in found[:COMMANDS_SHOWN]:
        if each.command:
            # Copied as it is: a command that is broken over lines is not.
            lines.append(Text(f"   {printable(each.command)}", style="cyan", no_wrap=True, overflow="ignore"))
        said = f"decides {each.decides_text}. {each.advice}" if each.command else each.advice
        lines.append(Padding(Text(printable(said)), _INDENT, expand=False))
        lines += [
            Padding(Text(printable(reason), style="dim"), _INDENT, expand=False)
            for reason in each.reasons[:2]
        ]
    if len(found) > COMMANDS_SHOWN:
        lines.append(Text(f"and {len(found) - COMMANDS_SHOWN} more (--json has all)", style="dim"))
    return [*lines, Text()]
