"""Compiles that the process counted after the capture: whose finding they are."""

import json
from dataclasses import replace

import pytest

from tests.builders import TraceBuilder
from tests.report import reports
from tests.rules.given import compiled, given
from tests.rules.situations import steps
from tpuprof.analysis.analyze import analyze_run
from tpuprof.analysis.sections.measure_next import measure_next
from tpuprof.model.compile.no_finding import TOLD_FROM_SHARE, compiled_without_finding
from tpuprof.model.compile.recurrence import MIN_STEPS_AFTER, AfterCapture, CompilingLine
from tpuprof.model.step_times import Bound, StepTimes
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.rules.shared.compiles_afterwards import LAST_SHARE, MAY_BE_ONCE, UNSEEN_CAUSE, check_afterwards
from tpuprof.rules.shared.recompile_cases import ANY_CAUSE, SELDOM
from tpuprof.rules.shared.recompiles import COMES_AGAIN_UNKNOWN

SYNC, EVALUATION = "<module> (/home/u/train.py:44)", "evaluate (/home/u/train.py:9)"


def compiled_in_the_capture():
    return replace(compiled("shape"), frames=[SYNC])


def outcome(line, rows, after=MIN_STEPS_AFTER):
    """Of 100 s after the capture, half went into compiles of `line`."""
    seen = AfterCapture(
        after, after, after, 50.0, 100.0, True, {line: CompilingLine(after, after, 50.0, [line])}
    )
    signals = {
        "framework": "torch_xla", "steps": steps(), "compile_share": 0.5, "step_compiles": rows, "after_capture": seen,
        "report": {"compiles": rows},
    }  # fmt: skip
    return {
        name: outcome_of(find_rule(name), given(**signals)).status
        for name in ("recompiles-shape", "recompiles-other")
    }


def test_a_line_that_compiles_in_the_capture_too_has_the_cause_seen_there():
    assert outcome(SYNC, [compiled_in_the_capture()]) == {
        "recompiles-shape": "failed",
        "recompiles-other": "passed",
    }


@pytest.mark.parametrize(("after", "status"), [(MIN_STEPS_AFTER - 1, "passed"), (MIN_STEPS_AFTER, "failed")])
def test_another_line_is_a_finding_of_its_own(after, status):
    assert outcome(EVALUATION, [compiled_in_the_capture()], after)["recompiles-other"] == status


def test_what_changed_in_compiles_that_no_captured_step_holds_is_unknown_and_measured_next():
    """Their time was counted, and not what made them: the advice may not fit."""
    seen = AfterCapture(50, 4, 4, 50.0, 100.0, True, {SYNC: CompilingLine(4, 4, 50.0, [SYNC])})
    found = check_afterwards(
        given(steps=steps(), step_compiles=[], after_capture=seen, records_if_noted=[], phases=[])
    )
    assert (found.confidence, found.reason.endswith(UNSEEN_CAUSE)) == ("medium", True)
    report = replace(
        reports.report(),
        findings=[reports.finding("recompiles-other", title=found.title, reason=found.reason)],
    )
    rows = measure_next(report, Bound("device", 1.0, 1.0), StepTimes(1.0, {}, 1.0, 0.0, 0.0))
    (row,) = [each for each in rows if "recompiles-other" in each.decides]
    assert "--steps 50" in row.command
    assert "4 of 50 steps compiled" in row.reason


@pytest.mark.parametrize("framework", ["torch_xla", "jax"])
def test_their_advice_has_shapes_and_all_other_causes(framework):
    """A curriculum of longer sequences compiled after the capture: advice named graphs, and no shapes."""
    seen = AfterCapture(50, 4, 4, 50.0, 100.0, True, {SYNC: CompilingLine(4, 4, 50.0, [SYNC])})
    found = check_afterwards(
        given(steps=steps(), step_compiles=[], after_capture=seen, records_if_noted=[], phases=[])
    )
    text = find_rule("recompiles-other").page.remedy(framework).text_for(found.cases)
    assert "give all one shape, or a few" in text
    assert "Let the decision be data" in text


def test_so_is_any_line_where_the_capture_holds_no_compile():
    assert outcome(SYNC, []) == {"recompiles-shape": "passed", "recompiles-other": "failed"}


@pytest.mark.parametrize(
    ("at", "stopped"),
    [
        # The first short batch, and the first evaluation.
        ([0, 1], True),
        # Each epoch of 40 steps: the last of 118 steps say nothing of the next.
        ([39, 79], False),
        ([39], False),
        # Nothing more came for more than twice as long as from one to the next.
        ([30], True),
        # More than are listed.
        ([0], False),
    ],
)
def test_a_line_that_compiles_no_more_is_no_finding(at, stopped):
    count = 2 if at == [0] else len(at)
    line = CompilingLine(count, count, 50.0, [EVALUATION], at)
    seen = AfterCapture(118, count, count, 50.0, 100.0, True, {EVALUATION: line})
    found = check_afterwards(
        given(steps=steps(), step_compiles=[], after_capture=seen, records_if_noted=[], phases=[])
    )
    assert (found is None) is stopped


@pytest.mark.parametrize(
    ("at", "again"),
    [
        ([81], False),
        # The last batch of an epoch, and the evaluation behind it.
        ([81, 82], False),
        ([39, 79], False),
        ([20, 50, 80], True),
        # Each step of a while.
        ([80, 81, 82, 83, 84], True),
        # More than are listed.
        ([], True),
    ],
)
def test_what_compiled_once_or_twice_after_the_capture_may_not_come_again(at, again):
    count = len(at) or 4
    line = CompilingLine(count, count, 50.0, [EVALUATION], at)
    seen = AfterCapture(90, count, count, 50.0, 100.0, True, {EVALUATION: line})
    found = check_afterwards(
        given(steps=steps(), step_compiles=[], after_capture=seen, records_if_noted=[], phases=[])
    )
    assert (found.confidence == "medium") is again
    assert found.share == pytest.approx(0.5 if again else 0.5 * MAY_BE_ONCE)
    assert found.title.endswith(COMES_AGAIN_UNKNOWN) is not again
    assert found.reason.startswith("it costs 556 ms per step" if again else "it took 50.0 s in all")


@pytest.mark.parametrize(
    ("at", "framework", "ends", "cases"),
    [
        ([round(90 * (1 - LAST_SHARE))], "torch_xla", True, {SELDOM}),
        ([round(90 * (1 - LAST_SHARE)) - 1], "torch_xla", False, ANY_CAUSE),
        ([85], "jax", True, ANY_CAUSE),
    ],
)
def test_a_compile_in_the_last_steps_may_be_the_end_of_a_schedule(at, framework, ends, cases):
    """A cosine that ends at 0 made one graph more: eight causes stood in the advice, and this one among the last."""
    line = CompilingLine(1, 1, 50.0, [EVALUATION], at)
    seen = AfterCapture(90, 1, 1, 50.0, 100.0, True, {EVALUATION: line})
    facts = {"step_compiles": [], "after_capture": seen, "records_if_noted": [], "phases": []}
    found = check_afterwards(given(steps=steps(), framework=framework, **facts))
    assert (", in the last tenth of the steps; it is unknown" in found.title) == ends
    assert found.cases == cases


def analyzed(folder, seconds, at, steps=105, in_the_capture=""):
    """Eight captured steps of 0.1 s; in 10 s after them, these steps compiled for so long. One frame may compile before."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(8):
        start = number * 100_000
        python.event("train_step", start, 100_000, _r=1, step_num=number, tpuprof="step", origin="user")
        cut = python.event("StepMarker", start + 10, 50)
        if in_the_capture and number % 2:
            cut.event("XLAGraphExecutor::Compile", start + 100, 50_000, graph_hash=f"hash{number}")
    trace.write(folder / "plugins" / "profile" / "one" / "host.xplane.pb")
    notes = folder / "tpuprof"
    notes.mkdir()
    compiles = [{"graphs": 1, "seconds": 0.05, "frames": [in_the_capture]}]
    rows = [
        {"step": number, "wall_ns": 10**8, "captured": True, "counters": {},
         "compiles": compiles if in_the_capture and number % 2 else []}
        for number in range(8)
    ]  # fmt: skip
    (notes / "run.json").write_text(json.dumps({"schema": "tpuprof.run/1", "warnings": []}))
    (notes / "telemetry.host.0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    line = {"cuts": len(at), "graphs": len(at), "seconds": seconds, "frames": [SYNC], "steps": at}
    after = {"steps": steps, "compiling_steps": len(at), "graphs": len(at), "seconds": seconds, "ended": True}
    after |= {"wall_seconds": 10.0, "steps_seconds": 10.0, "lines": {SYNC: line}}
    (notes / "after.host.0.json").write_text(json.dumps(after))
    return analyze_run(folder)


ENDED = "2 of 105 steps after the capture compiled at /home/u/train.py:44: 2.40 s, 24 % of that time. None of the last 98 "


def test_compiles_that_ended_soon_after_the_capture_are_told_of(tmp_path):
    """Of 105 steps two compiled for 24 % of the time, and the report had no word on it."""
    report = analyzed(tmp_path, 2.4, [4, 6])
    (rule,) = [each for each in report.findings if each.rule == "recompiles-other"]
    assert (rule.status, rule.reason.startswith(ENDED)) == ("passed", True)
    assert [each for each in report.warnings if ENDED in each and "start-up cost" in each]


@pytest.mark.parametrize(("last", "did"), [(5, "did"), (60, "compiled there")])
def test_compiles_of_another_line_are_no_contradiction(last, did):
    """ "None of the last 137 steps did" stood beside "3 of 138 steps compiled": that was another line."""
    preview = CompilingLine(1, 25, 5.0, ["preview (t.py:43)"], [6])
    # Steps of which not all are noted may come again.
    step = CompilingLine(2, 2, 0.1, ["step (t.py:66)"], [last])
    after = AfterCapture(100, 2, 26, 5.1, 20.0, True, {"preview": preview, "step": step})
    assert compiled_without_finding(after, 8) == (
        "1 of 100 steps after the capture compiled 25 graphs at t.py:43: 5.00 s, 25 % of that time. "
        f"None of the last 93 steps {did}, so it counts as start-up cost"
    )


@pytest.mark.parametrize(("more", "told"), [(-0.01, False), (0.01, True)])
def test_those_that_took_little_are_not(tmp_path, more, told):
    report = analyzed(tmp_path, 10 * (TOLD_FROM_SHARE + more), [4])
    assert any("after the capture compiled" in each for each in report.warnings) is told


def test_those_that_come_again_are_a_finding_and_no_warning(tmp_path):
    report = analyzed(tmp_path, 2.4, [10, 40, 70, 100])
    assert [each.status for each in report.findings if each.rule == "recompiles-other"] == ["failed"]
    assert not any("after the capture compiled" in each for each in report.warnings)


@pytest.mark.parametrize(("steps", "told"), [(MIN_STEPS_AFTER - 1, True), (MIN_STEPS_AFTER, False)])
def test_where_few_steps_followed_it_is_unknown_whether_they_come_again(tmp_path, steps, told):
    report = analyzed(tmp_path, 2.4, [4, 6], steps)
    said = [each for each in report.warnings if "2 of 19 steps after the capture compiled" in each]
    assert [each.endswith("Too few steps followed to tell whether compiles come again") for each in said] == [
        True
    ] * told


def test_a_line_that_compiles_in_the_capture_has_its_own_finding(tmp_path):
    report = analyzed(tmp_path, 2.4, [4, 6], MIN_STEPS_AFTER - 1, in_the_capture=SYNC)
    assert any(row.line == SYNC and row.step is not None for row in report.compiles)
    assert not any("after the capture compiled" in each for each in report.warnings)
