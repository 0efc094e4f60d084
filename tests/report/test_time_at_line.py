"""A line has one time in the verdict, the findings and the facts."""

from dataclasses import replace

import pytest

from tests.rules.given import given, step
from tpuprof.analysis.sections.host_words import host_sentence
from tpuprof.model.step_times import StepTimes
from tpuprof.report.host_lines import WITH_CALLS, lines_told
from tpuprof.report.sections import HostStackRow
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import run_rules

FILE = "/home/u/train.py"
PART = "host:python"


def row(ms, *frames, hidden=0.0, call="np.sort(x)", samples=9):
    """A stack of the user's frames below the loop: `function:line`, outermost first."""
    named = [f"{name} ({FILE}:{line})" for name, _, line in (each.partition(":") for each in frames)]
    source = named[-1].rpartition("(")[2].removesuffix(")")
    return HostStackRow(PART, [f"<module> ({FILE}:99)", *named], call, source, call, ms, hidden, samples)


def finding_and_verdict(stacks, wall=100.0):
    total = sum(each.exposed_ms_per_step for each in stacks if each.part == PART)
    (found,) = run_rules(
        given(
            steps=[step(wall, number, **{PART: total}) for number in range(8)],
            host_stacks=stacks,
            sampled_host_ms={PART: total},
        ),
        [find_rule("host-blocked")],
    )
    times = StepTimes(wall=wall, parts={PART: total}, busy=20.0, host_work=80.0, reads_share=0.0)
    return found, host_sentence("host", "", times, stacks, run=None)


# A function of three lines, and one that it calls and the loop calls, too.
TWO_CALLERS = [
    row(7.0, "main:30", "features:12", hidden=4.0),
    row(7.0, "main:30", "features:13", hidden=4.0),
    row(6.0, "main:30", "features:14", "smooth:5", hidden=12.0),
    row(5.0, "main:31", "smooth:5"),
]


def test_verdict_and_finding_give_the_same_time_behind_the_device():
    """The one counted what the function calls, the other its own lines alone: 20.0 and 8.00 ms."""
    found, verdict = finding_and_verdict(TWO_CALLERS)
    place = f"{FILE}:12, 13, 14 (in features)"
    assert (
        f"at {place} for 20.0 ms per step while the device idles, and for 20.0 ms while it works"
        in found.title
    )
    assert f"at {place}, 20.0 ms of 100 ms, and 20.0 ms more while the device works" in verdict


def test_a_function_that_both_places_call_is_named_by_its_other_caller():
    """Of the 11.0 ms at line 5, 6.00 are in those of `features`."""
    found, _ = finding_and_verdict(TWO_CALLERS)
    assert found.title.endswith(f"; other lines take 5.00 ms more, most of it at {FILE}:31 ({WITH_CALLS})")


def test_what_a_line_calls_of_the_users_has_lines_of_its_own():
    """The line has the time that it is at itself; the helper that it calls was "unknown"."""
    stacks = [row(14.0, "main:30"), row(6.0, "main:30", "clean:5", call="np.unique(x)")]
    found, verdict = finding_and_verdict(stacks)
    assert f"{FILE}:30 (np.sort(x)) for 14.0 ms" in found.title
    assert found.title.endswith(f"; other lines take 6.00 ms more, most of it at {FILE}:5 (np.unique(x))")
    assert f"{FILE}:30 (np.sort(x)), 14.0 ms of 100 ms" in verdict


def test_a_line_that_stands_for_what_it_calls_is_told_once():
    stacks = [
        row(2.0, "main:30", call="x.copy()"),
        *(row(4.0, "main:30", f"draw{line}:{line}") for line in (5, 6, 7)),
        replace(row(9.0, "main:32"), part="tracing"),
    ]
    found, verdict = finding_and_verdict(stacks)
    times = {each.text: each.ms for each in lines_told(stacks, PART)}
    assert times[f"{FILE}:30 (x.copy(), {WITH_CALLS})"] == pytest.approx(14.0)
    assert len([each for each in times if ":30" in each]) == 1
    assert [each.value for each in found.evidence if each.source == f"{FILE}:30"] == [pytest.approx(14.0)]
    assert f"{FILE}:30 (x.copy(), {WITH_CALLS}) for 14.0 ms" in found.title
    assert f"{FILE}:30 (x.copy(), {WITH_CALLS}), 14.0 ms" in verdict
