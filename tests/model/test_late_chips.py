"""Chips of one host that meet at collectives: who comes last, and what is a wait for it."""

import pytest

from tests.builders import TraceBuilder

REDUCE = "%all-reduce.1 = f32[8]{0} all-reduce(f32[8]{0} %g), replica_groups={}"
STEPS, COMPUTES = 8, 500


def chips(*late, line=REDUCE, takes=50, by_turns=False):
    """Chips that compute so much longer (µs) than others before an all-reduce, in steps that end with the last.

    `by_turns`: in each step it is the next chip that does so.
    """
    trace = TraceBuilder()
    most = max(late)
    length = COMPUTES + most + takes
    for index in range(len(late)):
        for step in range(STEPS):
            begin, own = step * length, late[(index + step * by_turns) % len(late)]
            plane = trace.tpu(index)
            plane.line("Steps").event(str(step), begin, length)
            plane.line("XLA Modules").event("f(1)", begin, length)
            ops = plane.line("XLA Ops")
            ops.event("%fusion.1 = f32[8]{0} fusion(f32[8]{0} %p)", begin, COMPUTES + own, display="fusion.1")
            ops.event(
                line, begin + COMPUTES + own, takes + most - own,
                display="all-reduce.1", facts={"hlo_category": "all-reduce"},
            )  # fmt: skip
    return trace


def finding(report, rule):
    return next(each for each in report.findings if each.rule == rule)


def test_the_chip_that_is_in_collectives_shortest_comes_last(analyze):
    report = analyze(chips(0, 0, 300, 0))
    rows = report.hosts.chip_waits
    assert [row.collectives for row in rows] == [STEPS] * 4
    waited = [row.waited_ms_in_collectives for row in rows]
    assert waited == pytest.approx([0.3 * STEPS, 0.3 * STEPS, 0.0, 0.3 * STEPS])
    said = finding(report, "barrier-skew")
    assert (said.status, said.savings.low) == ("failed", 0.0)
    assert said.savings.high == pytest.approx(0.3)
    assert said.title.startswith("/device:TPU:2 comes last")


def test_waits_for_it_are_not_called_communication(analyze):
    report = analyze(chips(0, 0, 300, 0))
    assert "82 % of that is a wait for /device:TPU:2, which comes last" in report.verdict.sentence
    said = finding(report, "exposed-collectives")
    assert said.status == "passed"
    assert "barrier-skew" in said.reason


def test_communication_that_takes_long_on_all_chips_is_nobodys_delay(analyze):
    report = analyze(chips(0, 10, 5, 0, takes=200))
    assert finding(report, "barrier-skew").status == "passed"
    assert "comes last" not in report.verdict.sentence
    said = finding(report, "exposed-collectives")
    assert said.status == "failed"
    assert said.savings.high == pytest.approx(0.2, rel=0.1)


def test_of_chips_that_come_late_together_none_is_named(analyze):
    report = analyze(chips(0, 300, 300, 0))
    assert "a wait for chips that come later" in report.verdict.sentence
    assert "than the chips that come last" in finding(report, "barrier-skew").title


def test_chips_that_are_late_by_turns_are_a_finding_that_names_none(analyze):
    """Each of four chips is late by 300 us in every fourth step, and waits 225 us per step on average."""
    report = analyze(chips(0, 0, 300, 0, by_turns=True))
    said = finding(report, "barrier-skew")
    assert said.status == "failed"
    assert (
        said.title == "Chips come last by turns, no single one is late: each waits 225 µs per step on average"
    )
    assert (said.savings.low, said.savings.high) == (0.0, pytest.approx(0.225))
    assert "limit each expert's capacity" in said.fix.text
    assert "is a wait for chips that come last by turns" in report.verdict.sentence


def test_the_fix_for_one_late_chip_is_not_that_for_turns(analyze):
    assert "expert" not in finding(analyze(chips(0, 0, 300, 0)), "barrier-skew").fix.text


def test_chips_that_are_late_by_turns_for_less_than_is_worth_naming_pass(analyze):
    assert finding(analyze(chips(0, 0, 50, 0, by_turns=True)), "barrier-skew").status == "passed"


def test_collectives_of_some_chips_say_nothing_of_lateness(analyze):
    groups = REDUCE.replace("{}", "{{0,1},{2,3}}")
    report = analyze(chips(0, 0, 300, 0, line=groups))
    assert report.hosts.chip_waits == []
    assert finding(report, "barrier-skew").status == "unavailable"
