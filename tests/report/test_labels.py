"""What is said where no rule failed: a cause that the verdict names must not read as if all were well."""

import io
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from tests.report import reports
from tests.rules.given import op
from tpuprof.model.compile.recurrence import MIN_STEPS_AFTER, AfterCapture
from tpuprof.model.outside_capture import outside_capture
from tpuprof.render.html import render_html
from tpuprof.render.markdown import render_markdown
from tpuprof.render.text import render
from tpuprof.report.between import BETWEEN_STEPS
from tpuprof.report.labels import (
    HIDES_BEHIND_DEVICE,
    MAY_BE_FASTER,
    NEVER_RESTS,
    main_places,
    nothing_failed,
    of_the_capture,
    read_times,
    reads_title,
)
from tpuprof.report.schema import Evidence, HostReadRow, PhaseRow, Verdict
from tpuprof.rules.shared.ops import SHOWN, op_evidence


def found(rule, status, reason="", category="input"):
    return reports.finding(rule=rule, status=status, reason=reason, category=category)


def test_code_that_a_verdict_names_beside_the_device_is_not_nothing():
    """ "Nothing: no rule failed" stood below the line of a resize that took 25 ms beside a busy CPU device."""
    sentence = f"Device-bound. But code at t.py:7 runs beside it for 25 ms: {MAY_BE_FASTER}."
    report = reports.report(findings=[found("a", "passed")], verdict=Verdict("device", 0.9, sentence))
    assert nothing_failed(report).startswith("No rule failed. What may save time is code beside the device")


@pytest.mark.parametrize(
    ("bound", "findings", "text"),
    [
        ("device", [found("a", "passed")], "Nothing: no rule failed."),
        ("unknown", [found("a", "passed")], "Nothing: no rule failed."),
        ("input", [found("a", "unavailable", "no trace")], "Unknown: no rule could be checked."),
        (
            "input",
            [
                found("a", "passed", "all in time"),
                found("b", "unavailable", "no trace"),
                found("c", "passed"),
            ],
            "No rule has a fix for what the verdict names. No trace (b). All in time (a).",
        ),
        (
            "input",
            [found("a", "passed", "x", category="host")],
            "No rule has a fix for what the verdict names.",
        ),
        ("input", [], ""),
    ],
)
def test_what_is_said(bound, findings, text):
    verdict = Verdict(bound, 0.5, "It is so.")
    assert nothing_failed(reports.report(findings=findings, verdict=verdict)) == text


def test_nothing_is_said_of_the_captured_steps_where_others_took_longer():
    """Every 20th step logged for 2 s: "Nothing: no rule failed" stood below "the others took 154 ms"."""
    steps = AfterCapture(MIN_STEPS_AFTER, 0, 0, 0.0, 0.02 * MIN_STEPS_AFTER, ended=True)
    (warning,) = outside_capture(np.full(8, 10**10), steps)
    report = reports.report(findings=[found("a", "passed")], verdict=Verdict("device", 0.9, "So."))
    said = nothing_failed(replace(report, warnings=[warning]))
    assert (
        said
        == "No rule failed in the captured steps. Steps outside of the capture took longer: see the warning."
    )


def test_what_was_found_while_the_device_is_behind_is_named():
    """A slow DataLoader beside a thread that never rests was in no line of "What to fix"."""
    seen = reports.finding(
        rule="input-starved",
        status="unavailable",
        title="Training waits 64 % of each step for data, at train.py:19",
        reason=NEVER_RESTS,
    )
    other = found("a", "unavailable", "no trace", category="tracing")
    said = nothing_failed(
        reports.report(findings=[other, seen, found("b", "passed")], verdict=Verdict("undecided", 0.6, "So."))
    )
    assert said == (
        "No fix is known to save time. Training waits 64 % of each step for data, at train.py:19, but "
        "the thread that hands programs to the device never rests: whether the device waits is unknown (input-starved)."
    )


def test_tracing_that_may_hide_behind_the_device_is_named_where_no_rule_failed():
    """A cure of the optimizer's tracing saved 20 % on this machine's CPU, below "Nothing: no rule failed"."""
    hides = reports.finding(
        rule="tracing-bound", status="passed", title="Tracing costs time", reason=HIDES_BEHIND_DEVICE
    )
    report = reports.report(findings=[hides, found("b", "passed")], verdict=Verdict("device", 0.6, "So."))
    assert nothing_failed(report) == "No fix is sure to save time. Tracing costs time (tracing-bound)."


@pytest.mark.parametrize(
    ("calls", "title"),
    [
        (["__float__"], "Device-to-host reads"),
        (["block_until_ready", "sync(wait=True)"], "Waits for the device"),
        (["item", "synchronize"], "Device-to-host reads, and waits for the device"),
    ],
)
def test_a_wait_that_reads_nothing_is_called_no_read(calls, title):
    assert reads_title([HostReadRow(call, "train.py:1", 1, 1.0) for call in calls]) == title


@pytest.mark.parametrize(
    ("call", "framework", "times"),
    [("__array__", "jax", "3 or more"), ("__float__", "jax", "3"), ("__array__", "torch_xla", "3")],
)
def test_samples_see_one_read_of_an_array_in_a_step_and_there_may_be_more(call, framework, times):
    report = SimpleNamespace(environment={"framework": framework})
    assert read_times(HostReadRow(call, "train.py:1", 3, 1.0), report) == times


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2 compiles in 1 step take 98 % of the time", "2 compiles in the capture take 98 % of the time"),
        ("without any a step would take 14.0 s at least", "without any it would take 14.0 s at least"),
    ],
)
def test_a_capture_without_steps_is_called_no_step(text, said):
    assert of_the_capture(text) == said


@pytest.mark.parametrize(
    ("name", "took", "inside", "share"),
    [
        ("other calls", 30.0, False, "50 %"),
        ("evaluation", 7.5, False, "20 %"),
        ("evaluation", 7.4, False, ""),
        ("evaluation", 30.0, True, ""),
        ("one-off compile", 30.0, False, ""),
    ],
)
def test_what_lies_between_the_steps_is_named_where_no_rule_failed(name, took, inside, share):
    phase = PhaseRow(name, "host-a", 10_000_000, took, 0, "why", 1, inside)
    said = nothing_failed(
        reports.report(
            walls=(10.0, 10.0, 10.0),
            findings=[found("a", "passed")],
            verdict=Verdict("device", 0.9, "So."),
            phases=[phase],
        )
    )
    assert said == (
        "Nothing in the training steps: no rule failed. What lies between them takes "
        f"{share} of the time: see the verdict."
        if share
        else "Nothing: no rule failed."
    )


@pytest.mark.parametrize(
    ("took", "title", "said"),
    [
        (30.0, "fault", True),
        (7.4, "fault", False),
        (30.0, f"10 compiles {BETWEEN_STEPS} take 65 % of it", False),
    ],
)
def test_what_lies_between_the_steps_is_named_below_findings_too(took, title, said):
    """A finding on memory alone stood above nothing, where an evaluation in NumPy took 58 % of the time."""
    phase = PhaseRow("other calls", "host-a", 10_000_000, took, 0, "why", 1)
    found = reports.finding(title=title)
    report = reports.report(walls=(10.0, 10.0, 10.0), findings=[found], phases=[phase])
    shown = io.StringIO()
    render(report, Console(file=shown, width=200))
    text = "All of that is of the training steps. What lies between them takes"
    pages = (shown.getvalue(), render_markdown(report), render_html(report))
    assert [text in page for page in pages] == [said] * 3


LIBRARY, OWN = "/v/lib/python3.11/site-packages/torch/_tensor.py:1181", "/home/train.py:30"


@pytest.mark.parametrize(
    ("sources", "places"),
    [([LIBRARY, "", OWN], [OWN]), ([OWN, LIBRARY], [OWN]), ([LIBRARY, ""], [LIBRARY]), (["", ""], [])],
)
def test_a_finding_is_at_a_line_of_the_program_where_its_evidence_has_one(sources, places):
    """A batch that every device had was said to be at `torch/_tensor.py`."""
    evidence = [Evidence("op", 1.0, "ms", source=source) for source in sources]
    assert main_places(reports.finding(evidence=evidence)) == places


def test_one_of_the_ops_listed_is_of_the_program_where_any_is():
    rows = [replace(op(str(at)), source=LIBRARY) for at in range(SHOWN + 3)]
    assert [each.text for each in op_evidence(rows)] == ["0", "1", "2", "3", "4"]
    rows[SHOWN + 1] = replace(rows[0], name="own", source=OWN)
    assert [each.text for each in op_evidence(rows)] == ["0", "1", "2", "3", "own"]
    rows[1] = replace(rows[1], source=OWN)
    assert [each.text for each in op_evidence(rows)] == ["0", "1", "2", "3", "4"]
