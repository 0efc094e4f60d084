"""Captures in which nothing repeats often enough: executions of the main program, else the whole capture."""

import dataclasses
import io

import pytest
from rich.console import Console

from tests.builders import TraceBuilder, op
from tpuprof.model.steps.few import MAIN_FROM_SHARE, MAIN_PROGRAM, WHOLE_CAPTURE
from tpuprof.model.steps.table import StepSource
from tpuprof.render.html import render_html
from tpuprof.render.markdown import render_markdown
from tpuprof.render.text import render
from tpuprof.report.schema import Finding
from tpuprof.rules.runner import of_the_capture


def ran(trace, name, start, duration, what="fusion"):
    trace.tpu(0).line("XLA Modules").event(f"{name}({len(name)})", start, duration)
    trace.tpu(0).line("XLA Ops").event(start=start, duration=duration, **op(f"{name}_op", what))
    return trace


def rendered(report, renderer):
    if renderer == "text":
        file = io.StringIO()
        render(report, Console(file=file, width=200))
        return file.getvalue()
    return render_html(report) if renderer == "html" else render_markdown(report)


def twice():
    trace = TraceBuilder()
    for start in (0, 2000):
        ran(trace, "step", start, 900)
        ran(trace, "sample", start + 1000, 100, "all-reduce")
    return trace


def test_two_executions_of_the_main_program_are_two_steps_of_low_confidence(analyze):
    report = analyze(twice())
    assert (report.steps.count, report.steps.method, report.steps.confidence) == (2, MAIN_PROGRAM, "low")
    assert [row.wall_ms for row in report.steps.per_step] == [2.0, 1.1]
    assert "Low confidence: step ran 2 times" in report.verdict.sentence
    assert report.collectives[0].exposed_ms_per_step == pytest.approx(0.1)


@pytest.mark.parametrize(("recorded", "told"), [(7000, True), (6000, False)])
def test_steps_that_are_a_small_part_of_the_recorded_time_are_said_to_be_that(analyze, recorded, told):
    trace = twice()
    trace.host().line("python").event("PjitFunction(step)", 0, 5).event("wait", recorded - 10, 10)
    note = analyze(trace).steps.note
    assert note.endswith("That is 44 % of the time that the training thread was recorded for") is told


@pytest.mark.parametrize(
    ("share", "method"), [(MAIN_FROM_SHARE - 0.01, WHOLE_CAPTURE), (MAIN_FROM_SHARE + 0.01, MAIN_PROGRAM)]
)
def test_from_which_share_on_a_program_is_the_main_one(analyze, share, method):
    trace = ran(TraceBuilder(), "step", 0, 1000 * share)
    for number in range(3):
        ran(trace, "x" * (number + 1), 1000 * (number + 1), 1000 * (1 - share) / 3)
    assert analyze(trace).steps.method == method


def test_where_no_program_stands_out_shares_are_of_the_whole_capture(analyze):
    trace = TraceBuilder()
    for number in range(4):
        ran(trace, "x" * (number + 1), 1000 * number, 250)
    report = analyze(trace)
    assert (report.steps.count, report.steps.whole_capture) == (0, True)
    assert report.steps.median_ms is None
    assert report.run_summary.mean_step_ms is None
    assert report.steps.per_step[0].wall_ms == pytest.approx(3.25)
    assert report.breakdown["compute"].share == pytest.approx(1.0 / 3.25)
    assert "the whole capture, in which no step was found" in report.verdict.sentence
    assert "each step" not in report.verdict.sentence


@pytest.mark.parametrize("renderer", ["text", "markdown", "html"])
def test_where_no_step_was_found_nothing_is_said_to_be_per_step(analyze, renderer):
    trace = TraceBuilder()
    for number in range(4):
        ran(trace, "x" * (number + 1), 1000 * number, 250)
    # The pages of rules speak of steps in general.
    said = rendered(dataclasses.replace(analyze(trace), findings=[]), renderer)
    assert "1.00 ms" in said
    assert "per step" not in said
    assert "Slowest steps" not in said


def test_a_host_without_steps_adds_no_window_to_the_steps_of_others(analyze):
    marked, lost = TraceBuilder(), TraceBuilder()
    for number in range(4):
        marked.tpu(0).line("Steps").event(str(number), 1000 * number, 1000)
        ran(marked, "step", 1000 * number, 900)
        ran(lost, "x" * (number + 1), 1000 * number, 250)
    report = analyze(marked, lost)
    assert {row.host for row in report.steps.per_step} == {"host0"}
    assert report.steps.count == 4


@pytest.mark.shared_traces
def test_an_inference_run_has_one_step_and_its_collectives(shared_traces):
    from tpuprof.analysis.analyze import analyze_run

    report = analyze_run(shared_traces / "tpu_vllm_qwen3")
    assert (report.steps.count, report.steps.method) == (1, MAIN_PROGRAM)
    assert report.breakdown["collective_exposed"].ms_per_step == pytest.approx(3.45, abs=0.01)
    assert sum(row.occurrences for row in report.collectives if row.kind == "all-reduce") == 129
    found = {each.rule: each for each in report.findings}
    assert found["exposed-collectives"].status == "passed"
    assert {found[f"recompiles-{kind}"].status for kind in ("shape", "constant", "other")} == {"unavailable"}


@pytest.mark.parametrize(("between", "method"), [(800, MAIN_PROGRAM), (20, StepSource.PROGRAMS)])
def test_steps_inferred_from_programs_cover_most_of_the_time(analyze, between, method):
    """Forty copies in a row, then three programs that never return, four times: with long pauses, copies are no steps."""
    trace, at = TraceBuilder(), 0
    for number in range(4):
        for _ in range(40):
            ran(trace, "copy", at, 9)
            at += 10
        for other in range(3):
            ran(trace, "x" * (3 * number + other + 1), at, 10)
            at += 11
        at += between
    assert analyze(trace).steps.method == method


def test_findings_of_a_capture_without_steps_speak_of_the_capture():
    finding = Finding(
        "r",
        "host",
        "failed",
        "The device waits 6 % of each step, 3 ms per step",
        "",
        0.1,
        None,
        "low",
        [],
        None,
    )
    assert (
        of_the_capture(finding).title
        == "The device waits 6 % of the whole capture, 3 ms in the whole capture"
    )
