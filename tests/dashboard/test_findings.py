"""Findings in a real Chromium: ranked, opened, filtered, and led from to the timeline."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.dashboard.conftest import HOSTILE, open_page, screenshot, served, settle, training_trace
from tpuprof.report.schema import Evidence, Finding, Fix, ProofRow, Savings

pytest.importorskip("dash")


def proof(outcome, sentence):
    return ProofRow(
        outcome, sentence, "step_ms as printed", 4, 3.0, 2.5, 0.5, 0.4, 0.6, 0.4, 0.5, "passed", "2026-11-23"
    )


def findings():
    return [
        Finding(
            rule="big-one",
            category="tracing",
            status="failed",
            title="The graph is traced again each step",
            why="Nothing changes between steps.",
            severity=0.5,
            savings=Savings(0.4, 0.5, "counterfactual", 1.0, 1.1),
            confidence="high",
            evidence=[
                Evidence("the long step", 3.0, "ms", "x", 2, 2_000_000, 3.0, f"{HOSTILE[0]}.py:3"),
                Evidence("a short one", 0.5, "ms", "x", 0, 250_000, 0.5),
            ],
            fix=Fix("Keep the graph.", HOSTILE[1], "compiled = keep(graph)", "rules/big-one.md"),
            proofs=[
                proof("undecided", "Undecided: too few pairs."),
                proof("confirmed", f"Confirmed: {HOSTILE[0]}."),
            ],
        ),
        Finding(
            rule="small-one",
            category="input",
            status="failed",
            title="Loading is slow",
            why="The loader is behind.",
            severity=0.1,
            savings=Savings(0.05, 0.1, "bound"),
        ),
        Finding("fine", "compile", "passed", "No recompiles", "Every graph was compiled once."),
        Finding(
            "cannot",
            "memory",
            "unavailable",
            "Memory",
            "Peak against capacity.",
            reason="the trace has no memory",
        ),
    ]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    from tpuprof_dashboard.store import Store

    import tpuprof.analysis.analyze as analyze

    original = analyze.report_of
    path = training_trace().write(tmp_path_factory.mktemp("training") / "x.xplane.pb")
    with pytest.MonkeyPatch.context() as patch, served(Store([path])) as url:
        patch.setattr(analyze, "report_of", lambda run: replace(original(run), findings=findings()))
        yield url


def test_the_first_screen_says_what_to_try_and_keeps_the_reports_order(tab, address):
    open_page(tab, address)
    text = tab.inner_text("#page")
    assert tab.inner_text("#try-first").startswith("Try first: Keep the graph (saves")
    assert text.index("The graph is traced again") < text.index("Loading is slow")
    assert "saves 400 µs to 500 µs per step" in text
    assert "No recompiles" not in text
    screenshot(tab, "overview-findings-light")


def test_a_finding_opens_to_evidence_and_fix_and_predicts_the_step(tab, address):
    open_page(tab, address, "?page=findings")
    tab.get_by_role("button", name="The graph is traced again").click()
    tab.get_by_text("compiled = keep(graph)").wait_for()
    text = tab.inner_text("#page")
    assert "the mean step would take 1.00 ms to 1.10 ms" in text
    assert HOSTILE[1] in text
    assert f"{HOSTILE[0]}.py:3" in text
    screenshot(tab, "findings-open-light")


def test_evidence_leads_to_its_place_in_the_timeline(tab, address):
    open_page(tab, address, "?page=findings")
    tab.get_by_role("button", name="The graph is traced again").click()
    tab.get_by_role("link", name="show in timeline").first.click()
    tab.wait_for_selector("#timeline .main-svg >> nth=0")
    assert "page=timeline" in tab.url
    assert "mark=2000000-5000000" in tab.url
    low, high = tab.evaluate("document.querySelector('#timeline .js-plotly-plot').layout.xaxis.range")
    assert low < 2 < 5 < high
    assert high - low < 6
    tab.get_by_text("evidence", exact=True).wait_for()
    screenshot(tab, "timeline-evidence-light")


def test_a_finding_marks_all_its_spans_in_the_timeline(tab, address):
    open_page(tab, address, "?page=findings&open=big-one")
    tab.get_by_role("link", name="Show all of it in the timeline").click()
    tab.wait_for_selector("#timeline .main-svg >> nth=0")
    assert "finding=big-one" in tab.url
    graph = "document.querySelector('#timeline .js-plotly-plot').layout"
    low, high = tab.evaluate(f"{graph}.xaxis.range")
    assert low < 0.25 < 5 < high < 7
    marked = tab.evaluate(f"{graph}.shapes.filter(s => s.type === 'rect').map(s => [s.x0, s.x1])")
    assert marked == [[2, 5], [0.25, 0.75]]
    chosen = tab.locator("nav[aria-label=Findings] a[aria-current]")
    assert chosen.inner_text() == "The graph is traced again each step"
    screenshot(tab, "timeline-finding-light")


def test_a_finding_is_chosen_beside_the_timeline(tab, address):
    open_page(tab, address, "?page=timeline")
    tab.get_by_role("link", name="The graph is traced again").press("Enter")
    tab.wait_for_url("**finding=big-one**")
    tab.get_by_text("evidence", exact=True).wait_for()
    tab.get_by_role("button", name="All").click()
    tab.wait_for_url(lambda url: "finding=" not in url)


def test_open_findings_and_ticks_are_kept_in_the_address(tab, address):
    open_page(tab, address, "?page=findings")
    tab.get_by_role("button", name="Loading is slow").press("Enter")
    tab.wait_for_url("**open=small-one**")
    # What the row holds comes from the server and moves all below it.
    tab.get_by_text("The loader is behind.").wait_for()
    settle(tab)
    tab.get_by_role("checkbox").first.check()
    tab.wait_for_url("**fix=big-one**")
    open_page(tab, tab.url)
    tab.get_by_text("The loader is behind.").wait_for()
    assert not tab.get_by_text("Nothing changes between steps.").is_visible()
    assert tab.get_by_role("checkbox").first.is_checked()
    # What the ticks give is computed again: these rules are not tpuprof's own.
    tab.wait_for_selector("#what-if-result > *")


def test_evidence_exports_csv(tab, address):
    open_page(tab, address, "?page=findings&open=big-one")
    with tab.expect_download() as download:
        tab.locator("[data-csv=evidence-big-one]").press("Enter")
    lines = Path(download.value.path()).read_text().splitlines()
    assert download.value.suggested_filename == "evidence-big-one.csv"
    assert lines[0] == "Evidence,Value (ms),Step,Source,Timeline"
    assert lines[1].startswith("the long step,3.0,2,")
    assert HOSTILE[0] in lines[1]


def test_what_passed_or_could_not_be_checked_is_closed_with_its_reason(tab, address):
    open_page(tab, address, "?page=findings")
    assert not tab.get_by_text("the trace has no memory", exact=True).first.is_visible()
    tab.get_by_role("button", name="Could not be checked (1)").click()
    tab.get_by_role("button", name="Memory").click()
    # It opens by sliding, from the next frame on.
    tab.get_by_text("the trace has no memory", exact=True).first.wait_for()
    tab.wait_for_url(lambda url: "cannot" in url)


def test_findings_are_filtered_by_category_in_the_address(tab, address):
    open_page(tab, address, "?page=findings&category=input")
    text = tab.inner_text("#page")
    assert "1 to fix in input" in text
    assert "The graph is traced again" not in text
    tab.get_by_role("link", name="all categories").click()
    tab.get_by_text("2 to fix", exact=True).wait_for()


def test_what_came_of_a_fix_that_was_tried_stands_beside_it(tab, address):
    open_page(tab, address, "?page=findings&open=big-one")
    row = tab.locator(".mantine-Accordion-item", has_text="The graph is traced again").first
    row.get_by_text("Tried: Undecided: too few pairs. (4 pairs, read from step_ms as printed)").wait_for()
    row.get_by_text(f"Tried: Confirmed: {HOSTILE[0]}.").wait_for()
    assert row.get_by_text("fix confirmed").count() == 1
