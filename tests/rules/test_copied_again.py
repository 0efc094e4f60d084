"""What copies an array to the device that was copied there before is named, priced whole, and advised about."""

import pytest

from tests.builders import TraceBuilder, op
from tests.rules.given import given, steps
from tpuprof.analysis.analyze import analyze_run
from tpuprof.rules.input.input_starved.rule import AGAIN_FROM_SHARE
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of

STEP, COUNT = 1000, 8


def copying(again, lines=("train.py:7",), shares=(1.0,)):
    """Steps of JAX that copy for 500 and train for 300; so many of them copy what was copied before.

    Each line copies for its share of the 500.
    """
    trace = TraceBuilder()
    python, modules = trace.host().line("python"), trace.tpu(0).line("XLA Modules")
    for number in range(COUNT):
        at = number * STEP
        python.event("train", at, STEP, _r=1, step_num=number)
        begin = at
        for line, share in zip(lines, shares, strict=True):
            facts = {"call": "device_put", "source": line, "again": int(number < again)}
            python.event("tpuprof.upload", begin, 500 * share, **facts)
            begin += 500 * share
        python.event("PjitFunction(step)", at + 550, 50)
        modules.event("jit_step(7)", at + 600, 300)
        trace.tpu(0).line("XLA Ops").event(start=at + 600, duration=300, **op("fusion.1"))
    return trace


def finding(folder, again):
    report = analyze_run(copying(again).write(folder / "host.xplane.pb"))
    return next(each for each in report.findings if each.rule == "input-starved")


@pytest.mark.parametrize(("again", "least"), [(0, 0.0), (COUNT // 2, 0.25), (COUNT, 0.5)])
def test_the_price_begins_with_what_need_not_be_copied(tmp_path, again, least):
    found = finding(tmp_path, again)
    wall = STEP / 1e3
    assert found.savings.low == pytest.approx(least * wall, abs=0.02 * wall)
    assert found.savings.high == pytest.approx(0.5 * wall, rel=0.05)
    told = [each.value for each in found.evidence if "copied before" in each.text]
    assert told == ([] if again < AGAIN_FROM_SHARE * COUNT else [pytest.approx(again / COUNT)])


@pytest.mark.parametrize(
    ("share", "cases"), [(0.0, {"batches"}), (0.5, {"batches", "again"}), (1.0, {"again"})]
)
def test_the_advice_is_for_what_is_copied(share, cases):
    signals = given(steps=steps(host_to_device=60.0), copied_again=share)
    assert outcome_of(find_rule("input-starved"), signals).cases == frozenset(cases)


@pytest.mark.parametrize(("again", "cases"), [(0.0, {"arguments"}), (1.0, {"again"})])
def test_arguments_of_a_call_have_advice_of_their_own(again, cases):
    signals = given(steps=steps(host_to_device=60.0), copied_again=again, copied_for="train_step")
    found = outcome_of(find_rule("input-starved"), signals)
    assert found.cases == cases
    assert ("that train_step is given" in found.title) == (cases == {"arguments"})


def test_a_wait_for_batches_is_no_copy():
    assert outcome_of(find_rule("input-starved"), given(steps=steps(input_wait=60.0))).cases == {"batches"}


@pytest.mark.parametrize(
    ("shares", "named"), [((1.0, 0.0), True), ((0.5, 0.5), True), ((0.34, 0.33, 0.33), False)]
)
def test_the_line_that_copies_is_named_where_samples_see_little_of_it(tmp_path, shares, named):
    """Six layers copied a table of 32 MB each: "waiting for data" was all that was said, without a line."""
    lines = [f"model.py:{30 + number}" for number in range(len(shares))]
    report = analyze_run(copying(0, lines, shares).write(tmp_path / "host.xplane.pb"))
    found = next(each for each in report.findings if each.rule == "input-starved")
    assert (", copied at model.py:30" in found.title) is named
    assert ("copied at model.py:30" in [f"{each.text} {each.source}" for each in found.evidence]) is named
    assert (" Most of it is copied at model.py:30." in report.verdict.sentence) is named
