"""What to try first, and why it is not what the verdict names."""

import pytest

from tests.report.reports import finding, report
from tpuprof.compare.steps import compare_steps, usual_and_slowest
from tpuprof.render.content import first_to_try, saves, stake
from tpuprof.report.schema import Fix, Savings, Verdict


def of(bound, *findings):
    return first_to_try(report(findings=list(findings), verdict=Verdict(bound, 0.3, "Bound.")))


def test_nothing_failed_nothing_to_try():
    assert of("tracing", finding(status="passed")) is None


def test_the_first_findings_fix_in_one_sentence():
    found = of("compile", finding(fix=Fix("Pad batches. Then look again.")))
    assert (found.text, found.savings) == ("Pad batches", "saves 12.0 ms to 18.5 ms per step")
    assert found.why == ""


def test_a_finding_on_memory_alone_says_that_it_takes_no_time():
    memory = finding(savings=None, severity=0.0)
    assert of("device", memory).savings == stake(memory) == "no step time at stake"


def test_another_part_than_the_verdicts_is_explained_by_the_prices():
    other = finding("gather", category="collective", title="Gathers wait", savings=Savings(1, 2, "bound"))
    found = of("collective", finding(category="tracing"), other)
    assert found.why.endswith("that part saves less: Gathers wait (saves 1.00 ms to 2.00 ms per step).")
    assert of("tracing", finding(category="tracing"), other).why == ""


def test_where_no_rule_found_what_the_verdict_names_it_says_so():
    assert "no rule found a fix" in of("collective", finding(category="tracing")).why


@pytest.mark.parametrize(
    ("savings", "text"),
    [(None, "is not priced: Gathers"), (Savings(1, 30, "bound"), "ranks behind: Gathers")],
)
def test_what_the_verdict_names_may_save_more_or_have_no_price(savings, text):
    other = finding("gather", category="collective", title="Gathers wait", savings=savings)
    assert text in of("collective", finding(category="tracing"), other).why


@pytest.mark.parametrize("bound", ["device", "unknown"])
def test_any_finding_may_help_a_device_that_is_simply_busy(bound):
    assert of(bound, finding(category="tracing")).why == ""


@pytest.mark.parametrize(
    ("savings", "text"),
    [
        (None, ""),
        (Savings(2.0, 2.0, "bound"), "saves 2.00 ms per step"),
        (Savings(0.0, 2.0, "bound"), "saves up to 2.00 ms per step"),
    ],
)
def test_savings_in_words(savings, text):
    assert saves(finding(savings=savings)) == text


def test_the_part_that_grew_explains_two_steps():
    steps = report((10.0, 25.0), compiles=[(1, 14.0)]).steps.per_step
    pair = compare_steps(steps[0], steps[1], ["compute", "tracing"])
    assert [each.name for each in pair.parts] == ["compute", "tracing", "compile"]
    assert (pair.grown.name, pair.grown.difference_ms) == ("compile", 14.0)
    assert pair.difference_ms == 15.0
    assert compare_steps(steps[1], steps[0], []).grown.name == "compile"
    assert compare_steps(steps[0], steps[0], []).grown is None


def test_the_usual_step_is_nearest_the_median():
    steps = report((10.0, 30.0, 12.0)).steps.per_step
    assert usual_and_slowest(steps, 12.0) == (2, 1)
