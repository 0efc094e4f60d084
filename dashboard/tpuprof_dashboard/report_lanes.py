"""The lanes a Report alone can draw, for a saved one: its steps, what bound each, compiles, findings' evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tpuprof.parts import word_of
from tpuprof.render.content import failed_findings
from tpuprof.timeline.lanes import ANNOTATIONS, PERIODS, STEP_GROUP, STEPS, Lane, LaneInfo, build_lane
from tpuprof.units import PS_PER_MS, PS_PER_NS
from tpuprof_dashboard.timeline_view import NOTES_LANE

if TYPE_CHECKING:
    from tpuprof.report.schema import Report, StepRow
    from tpuprof.report.span_note import SpanNote

_EVIDENCE_GROUP, NOTE_GROUP = "evidence", "note"
# The notes come after the summary lanes of a host.
_NOTES_AT = 2


@dataclass(frozen=True)
class _Bar:
    """One bar: ps from the run's origin, what it says, and what it is coloured by."""

    start: int
    length: int
    name: str
    group: str
    detail: str = ""


def report_lanes(report: Report) -> dict[str, list[LaneInfo]]:
    """Lanes by host; a host without any bar is left out."""
    hosts = list(
        dict.fromkeys([each.host for each in report.steps.per_step] + [each.host for each in report.compiles])
    )
    found = {host: with_notes(_lanes(report, host), report.span_notes, host) for host in hosts}
    return {host: lanes for host, lanes in found.items() if lanes}


def with_notes(lanes: list[LaneInfo], notes: Sequence[SpanNote], host: str) -> list[LaneInfo]:
    """The lanes of a host with one for the notes on it, in place of the one that they had; without notes none."""
    bars = [
        _Bar(
            each.start_ns * PS_PER_NS,
            each.duration_ns * PS_PER_NS,
            each.text,
            NOTE_GROUP,
            " · ".join(filter(None, [each.name, each.lane])),
        )
        for each in notes
        if each.host in ("", host)
    ]
    others = [each for each in lanes if each.key != NOTES_LANE]
    if not bars:
        return others
    own = LaneInfo(NOTES_LANE, "Notes", ANNOTATIONS, len(bars), _building(bars))
    return [*others[:_NOTES_AT], own, *others[_NOTES_AT:]]


def report_extent(lanes: Sequence[LaneInfo]) -> tuple[int, int]:
    """First and last moment of lanes in ps."""
    bars = [row.levels[0] for each in lanes for row in each.lane.rows]
    return min(int(each.start.min()) for each in bars), max(int(each.end.max()) for each in bars)


def _lanes(report: Report, host: str) -> list[LaneInfo]:
    steps = [each for each in report.steps.per_step if each.host == host]
    rows = [
        ("steps", "Steps", STEPS, [_step(each, f"step {each.index}", STEP_GROUP) for each in steps]),
        (
            "bounds",
            "Bound by",
            PERIODS,
            [
                _step(each, word_of(each.bound).title, word_of(each.bound).part or each.bound)
                for each in steps
            ],
        ),
        ("compiles", "Compiles", ANNOTATIONS, _compiles(report, host)),
        ("evidence", "Evidence", ANNOTATIONS, _evidence(report, host)),
    ]
    return [LaneInfo(key, title, kind, len(bars), _building(bars)) for key, title, kind, bars in rows if bars]


def _step(step: StepRow, name: str, group: str) -> _Bar:
    return _Bar(step.start_ns * PS_PER_NS, round(step.wall_ms * PS_PER_MS), name, group)


def _compiles(report: Report, host: str) -> list[_Bar]:
    return [
        _Bar(
            each.start_ns * PS_PER_NS,
            round(each.duration_ms * PS_PER_MS),
            f"{each.cause.kind}: {each.cause.detail}",
            "compile",
            " · ".join(filter(None, [each.program, each.cause.source_file or ""])),
        )
        for each in report.compiles
        if each.host == host
    ]


def _evidence(report: Report, host: str) -> list[_Bar]:
    return [
        _Bar(
            each.start_ns * PS_PER_NS,
            round((each.duration_ms or 0.0) * PS_PER_MS),
            each.text,
            _EVIDENCE_GROUP,
            " · ".join(filter(None, [finding.title, each.source])),
        )
        for finding in failed_findings(report)
        for each in finding.evidence
        if each.start_ns is not None and each.host in ("", host)
    ]


def _building(bars: list[_Bar]) -> Callable[[], Lane]:
    def build() -> Lane:
        start = np.array([each.start for each in bars], np.int64)
        end = start + np.maximum(np.array([each.length for each in bars], np.int64), 1)
        return build_lane(
            [each.name for each in bars],
            [each.group for each in bars],
            [each.detail for each in bars],
            start,
            end,
            np.arange(len(bars)),
        )

    return build
