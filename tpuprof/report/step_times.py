"""The times of steps in words: where the host runs ahead of its device, typical steps say little of what one takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuprof.parts import EITHER_BEFORE, ELSEWHERE
from tpuprof.units import format_ms

if TYPE_CHECKING:
    from tpuprof.report.schema import Report

# The median step over the device's work per step, below which the host runs ahead (ratio): a step that waits for its
# own work takes at least as long as that. Steps of different work differ too, by less in training. A judgement.
AHEAD_BELOW = 0.5
# Share of the step that is known to be work at least where the verdict is that it was handed over before, and handing
# programs over is most of it (share).
WORKS_FROM_SHARE = 0.7
# How far the mean step lies from the median, in shares of the median, from which on both are said (ratio): steps of
# two kinds have a median that is neither, and their mean is what a program's own clock shows. A judgement.
APART_FROM = 0.1


def runs_ahead(report: Report) -> bool:
    """Whether typical steps end long before the device can have done their work; a few then wait for all of it."""
    median, summary = report.steps.median_ms, report.run_summary
    busy = summary.device_busy_share
    if busy is None and (report.verdict.bound == "device" or EITHER_BEFORE in report.verdict.sentence):
        # The trace does not show the device: what reads wait for does.
        busy = report.verdict.share
    if busy is None and ELSEWHERE in report.verdict.sentence:
        # The verdict's share is of one thread alone.
        busy = WORKS_FROM_SHARE
    if median is None or summary.mean_step_ms is None or busy is None:
        return False
    return median < AHEAD_BELOW * busy * summary.mean_step_ms


def step_to_compare(report: Report) -> tuple[str, float | None]:
    """`median` or `mean`, and that step time (ms): the median of a host that runs ahead is what its calls take."""
    if runs_ahead(report):
        return "mean", report.run_summary.mean_step_ms
    return "median", report.steps.median_ms


def step_times(report: Report) -> str:
    """`median 12.8 ms, p95 13.1 ms`, the mean as well where it lies apart, or the mean and why that counts.

    Only for a report with a median step.
    """
    steps, mean = report.steps, report.run_summary.mean_step_ms
    assert steps.median_ms is not None and steps.p95_ms is not None
    if mean is not None and runs_ahead(report):
        return (
            f"mean {format_ms(mean)} (the host runs ahead of the device: half of the steps end within "
            f"{format_ms(steps.median_ms)}, and some wait for the work of many)"
        )
    apart = mean is not None and abs(mean - steps.median_ms) >= APART_FROM * steps.median_ms
    said_mean = f"mean {format_ms(mean)}, " if mean is not None and apart else ""
    return f"median {format_ms(steps.median_ms)}, {said_mean}p95 {format_ms(steps.p95_ms)}"
