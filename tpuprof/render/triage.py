"""How the verdict came about, and what to measure next, in the words that all renderers share."""

from __future__ import annotations

import re
from dataclasses import field

from tpuprof.parts import HOST_SYNC, title_of
from tpuprof.records import record
from tpuprof.report.schema import Report
from tpuprof.report.triage import DecisionRow
from tpuprof.units import counted, format_ms, format_share

# Rules that are named; of more their number is shown (rules).
_NAMED = 3
_MS = "ms per step"
# Shares that differ by less seem to be the same to a reader (share of the step).
_APART_FROM_SHARE = 0.02


@record(frozen=True)
class Measurement:
    """One command, and all that it decides. Without a command, `advice` says what can be done."""

    command: str
    said: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    decides: list[str] = field(default_factory=list)

    @property
    def advice(self) -> str:
        """What the command does, or needs: each sentence once."""
        sentences = [each for said in self.said for each in re.split(r"(?<=\.) (?=[A-Z])", said)]
        return " ".join(dict.fromkeys(sentences))

    @property
    def decides_text(self) -> str:
        """What it decides: names of a few, and how many more."""
        named = ", ".join(self.decides[:_NAMED])
        more = len(self.decides) - _NAMED
        return f"{named} and {counted(more, 'more rule')}" if more > 0 else named


def measurements(report: Report) -> list[Measurement]:
    """The report's rows by command, in their order: several reasons may need the same capture."""
    found: dict[str, Measurement] = {}
    for row in report.measure_next:
        # What no command decides is not of one command either.
        each = found.setdefault(row.command or row.reason, Measurement(row.command))
        each.reasons.append(row.reason)
        each.said.extend([row.advice] if row.advice and row.advice not in each.said else [])
        each.decides.extend(name for name in row.decides if name not in each.decides)
    return list(found.values())


# What a verdict says where reads cost most by the graphs that they run.
OWN_GRAPHS = "run graphs of their own"
_COST_OF_TURNS = "host and device lose because they take turns"
# What it says where they cost both: turns, and work that the device does again.
TURNS_AND_AGAIN = "take turns, and the step computes the same again"
_COST_OF_BOTH = "host and device lose because they take turns, with what the device does again"
_REST_OF_BOTH = (
    "The rest is in other parts: what the host does while the device idles, and computing the same again."
)
_COST_OF_GRAPHS = "the graphs of reads cost"
_REST_OF_TURNS = (
    "The rest of the loss is in other parts, mostly those that name what the host does while "
    "the device idles."
)
_REST_OF_GRAPHS = "The rest is in other parts: making these graphs, and computing the same again."


def verdict_note(report: Report) -> str:
    """Why the verdict's share is not that of the part its word stands for; empty where it is."""
    part = report.breakdown.get(HOST_SYNC)
    if (
        report.verdict.bound != "sync"
        or part is None
        or report.verdict.share - part.share < _APART_FROM_SHARE
    ):
        return ""
    cost, rest = _COST_OF_TURNS, _REST_OF_TURNS
    if OWN_GRAPHS in report.verdict.sentence:
        cost, rest = _COST_OF_GRAPHS, _REST_OF_GRAPHS
    elif TURNS_AND_AGAIN in report.verdict.sentence:
        cost, rest = _COST_OF_BOTH, _REST_OF_BOTH
    return (
        f"The verdict's {format_share(report.verdict.share)} is what {cost}. "
        f'The part "{title_of(HOST_SYNC)}" is {format_share(part.share)} of the step: the moments in which the host '
        f"waits and the device is idle already. {rest}"
    )


def numbers_of(row: DecisionRow) -> tuple[str, str]:
    """A decision's number and its threshold, as people read them; of a question without numbers yes or no."""
    if row.value is None or row.threshold is None:
        return ("yes" if row.holds else "no"), ""
    shown = format_ms if row.unit == _MS else format_share
    unit = "" if row.unit == _MS else f" of {row.unit.partition(' of ')[2]}"
    return f"{shown(row.value)}{unit}", f"{'at least' if row.holds else 'less than'} {shown(row.threshold)}"
