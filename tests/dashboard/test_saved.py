"""A saved report and a ticket bundle in place of a run: what the report has is shown, and what it lacks is said."""

from pathlib import Path

import pytest

from tests.dashboard.conftest import open_page, screenshot, served

pytest.importorskip("dash")
RECOMPILE = Path(__file__).parents[2] / "sample_traces" / "recompile_shapes"


@pytest.fixture(
    scope="module",
    params=[pytest.param("json", marks=pytest.mark.slow("the zip holds the same report")), "zip"],
)
def address(tmp_path_factory, request):
    from tpuprof_dashboard.store import Store

    from tpuprof.analysis.analyze import analyze_run
    from tpuprof.report.as_json import to_json
    from tpuprof.share.bundle import write_bundle

    path = tmp_path_factory.mktemp("saved") / f"run.{request.param}"
    report = analyze_run(RECOMPILE)
    if request.param == "json":
        path.write_text(to_json(report))
    else:
        write_bundle(path, report, RECOMPILE, None)
    with served(Store([path])) as url:
        yield url


@pytest.mark.slow("another pass over every page")
def test_every_page_opens(tab, address):
    from tpuprof_dashboard.pages.registry import PAGES

    for page in PAGES:
        open_page(tab, address, f"?page={page.key}")
        assert "cannot be shown" not in tab.inner_text("#page"), page.key


def test_the_timeline_draws_steps_compiles_and_evidence(tab, address):
    open_page(tab, address, "?page=timeline")
    tab.wait_for_selector("#timeline .ytick")
    assert tab.locator("#timeline .ytick").all_text_contents() == [
        "Steps",
        "Bound by",
        "Compiles",
        "Evidence",
    ]
    assert "in the trace alone" in tab.inner_text("#page")
    assert "an input changed" in tab.inner_text("#timeline-events")
    assert tab.get_by_role("button", name="Open in Perfetto").count() == 0
    tab.get_by_placeholder("Go to a step").click()
    tab.get_by_role("option", name="step 7").click()
    tab.wait_for_url("**start=**")
    screenshot(tab, "timeline-saved-light")


def test_compiles_have_cause_and_frames_and_no_graphs(tab, address):
    open_page(tab, address, "?page=compiles")
    text = tab.inner_text("#page")
    assert "an input changed: s64[4,33] became s64[4,41]" in text
    assert "common.py" in text
    assert "only the trace holds the graphs" in text.replace("Only", "only")


def test_what_if_says_that_it_needs_the_trace(tab, address):
    open_page(tab, address, "?page=findings&fix=recompiles-shape")
    tab.wait_for_selector("#what-if-result:has-text('no trace whose steps could be replayed')")
