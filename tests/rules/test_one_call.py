"""A call that reads values and works on them: histograms of all weights, whose time lies in two parts."""

import pytest

from tests.rules.given import given, step, steps
from tpuprof.model.compile.recurrence import AfterCapture, LongSteps
from tpuprof.report.sections import HostStackRow
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.rules.shared.one_call import (
    AGAIN_FROM_SHARE,
    LOOP_FROM_SHARE,
    MOST_FROM_SHARE,
    call_of,
    comes_again,
)

MAIN = "main (train.py:68)"
READ, WORK = "device_to_host_sync", "host:python"


def row(part, *frames, ms=1.0):
    return HostStackRow(part, [MAIN, *frames], "", "", "", ms, 0.0, 3)


def logged(read=1.0, work=1.0, elsewhere=0.2):
    """Reads and work at two lines of `log`, called at line 57; and Python at another line."""
    log = "main (train.py:57)"
    return [
        row(READ, log, "log (train.py:20)", ms=read),
        row(WORK, log, "log (train.py:21)", ms=work),
        row(WORK, "main (train.py:50)", ms=elsewhere),
        row("tracing", "main (train.py:54)"),
    ]


def test_the_call_below_which_both_are_is_found():
    """The loop's own line leads to both as well, and to all else."""
    assert call_of(logged(), (READ, WORK)) == "train.py:57"


@pytest.mark.parametrize(
    ("elsewhere", "line"), [(1.0 / MOST_FROM_SHARE - 1.01, "train.py:57"), (1.0 / MOST_FROM_SHARE - 0.99, "")]
)
def test_most_of_each_part_must_be_below_it(elsewhere, line):
    assert call_of(logged(elsewhere=elsewhere), (READ, WORK)) == line


@pytest.mark.parametrize(("more", "line"), [(0.01, "train.py:57"), (-0.01, "")])
def test_a_line_that_leads_to_nearly_all_is_the_loops(more, line):
    """Of 2 ms at the call, all else is so much that the call has nine tenths, or a little less."""
    log = "main (train.py:57)"
    rows = [
        row(READ, log),
        row(WORK, log),
        row("tracing", "main (train.py:54)", ms=2 / LOOP_FROM_SHARE - 2 + more),
    ]
    assert call_of(rows, (READ, WORK)) == line


def test_parts_of_different_calls_have_none():
    rows = [row(READ, "main (train.py:57)"), row(WORK, "main (train.py:50)")]
    assert call_of(rows, (READ, WORK)) == ""


@pytest.mark.parametrize(("more", "again"), [(1, True), (-1, False)])
def test_later_steps_are_of_it_where_enough_of_their_samples_are(more, again):
    there = int(100 * AGAIN_FROM_SHARE) + more
    stacks = {"log (train.py:20)\nmain (train.py:57)": there, "main (train.py:5)": 100 - there}
    assert comes_again(LongSteps(stacks=stacks), "train.py:57") == again


def outcome(later=0, stacks=None, slow=1):
    """Of ten steps of 20 ms some take 60 ms more: 24 of reads, 20 of Python, and 16 of all else."""
    long = [step(80.0, 10 + row, **{READ: 24.0, WORK: 20.0, "tracing": 16.0}) for row in range(slow)]
    notes = LongSteps(judged=100, usual_seconds=0.02, steps=later, stacks=logs(later))
    after = AfterCapture(100, 0, 0, 0.0, 3.0, True, long=notes)
    facts = {"stacks_if_sampled": logged() if stacks is None else stacks, "after_capture": after}
    return outcome_of(find_rule("uneven-steps"), given(steps=[*steps(10, wall=20.0), *long], **facts))


def logs(times):
    return {"log (train.py:20)\nmain (train.py:57)": times} if times else {}


def test_a_slow_step_that_reads_and_works_on_what_it_read_has_one_cause():
    """Neither of the two was half of what the step took more: "no recurring cause was seen" of a fifth of the run."""
    found = outcome()
    assert (found.status, found.confidence) == ("failed", "low")
    assert "mostly for device-to-host reads" in found.title and found.cases == {"read"}
    assert outcome(stacks=[]).status == "passed"


def test_later_steps_that_are_long_there_tell_that_it_recurs():
    assert outcome(later=20).confidence == "medium"
    assert outcome(later=1).confidence == "low"
