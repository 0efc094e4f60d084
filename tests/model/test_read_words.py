"""Further lines that read: the verdict counts those whose reads block for about as long as the first line's."""

from dataclasses import replace

import pytest

from tests.report import reports
from tpuprof.analysis.sections.doubtful_cost import weakened
from tpuprof.analysis.sections.read_words import OTHERS_FROM_SHARE, other_lines
from tpuprof.model.step_times import StepTimes
from tpuprof.report.schema import HostReadRow, Savings, Verdict


def reads(*rows):
    return [HostReadRow("item", source, 8, blocked) for source, blocked in rows]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("a.py:45", 100.0), ("a.py:43", 100 * OTHERS_FROM_SHARE + 1)], ", and reads at 1 other line"),
        ([("a.py:45", 100.0), ("a.py:43", 90.0), ("a.py:44", 80.0)], ", and reads at 2 other lines"),
        ([("a.py:45", 100.0), ("a.py:43", 100 * OTHERS_FROM_SHARE - 1)], ""),
        # The same line, and one that is unknown.
        ([("a.py:45", 100.0), ("a.py:45", 90.0), ("", 90.0)], ""),
        ([("a.py:45", 100.0)], ""),
    ],
)
def test_lines_whose_reads_block_for_about_as_long_are_counted(rows, said):
    assert other_lines(reads(*rows)) == said


@pytest.mark.parametrize(
    ("others", "what"), [("", "the read"), (other_lines(reads(("a", 2.0), ("b", 1.0))), "the reads")]
)
def test_the_price_is_that_of_all_of_them(others, what):
    """Two lines read each norm, for half of the time each: "without the read" stood behind the name of one."""
    said = Verdict("sync", 0.5, f"Sync-bound: reads. It is .item() at a.py:45, 14 times per step{others}.")
    finding = replace(
        reports.finding("device-to-host-sync"),
        status="failed",
        savings=Savings(60.0, 70.0, "counterfactual", 30.0, 40.0),
    )
    text = weakened(said, [finding], StepTimes(100.0, {}, 50.0, 0.0, 0.0)).sentence
    assert f" Without {what}, a step may be " in text
