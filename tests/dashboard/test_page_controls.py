"""What is done on pages in a real Chromium: tables, the menu, the keyboard, comparisons, tickets."""

import csv
import json
import zipfile
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.dashboard.conftest import (
    SAMPLES,
    open_page,
    screenshot,
    served,
    training_trace,
)

pytest.importorskip("dash")
from tpuprof_dashboard.pages.registry import BY_KEY

from tpuprof.analysis.analyze import analyze_run

RECOMPILE = str(SAMPLES / "recompile_shapes")
FSDP = str(SAMPLES / "decoder_fsdpv2")


@pytest.fixture(scope="module")
def address(runs):
    from tpuprof_dashboard.store import Store

    with served(Store(list(runs.values()))) as url:
        yield url


def rows_of(download):
    """The rows of a CSV file that was downloaded."""
    with Path(download.path()).open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_table_exports_csv(tab, address):
    open_page(tab, address, f"?page=steps&run={RECOMPILE}")
    with tab.expect_download() as download:
        tab.get_by_role("button", name="CSV").last.click()
    assert download.value.suggested_filename == "steps.csv"
    rows = rows_of(download.value)
    assert len(rows) == 6
    # Numbers as they are in the report, not as they are shown.
    walls = [step.wall_ms for step in analyze_run(SAMPLES / "recompile_shapes").steps.per_step]
    assert [float(row["wall ms"]) for row in rows] == walls
    assert len(rows[0]["wall ms"].partition(".")[2]) > 3


def test_a_plain_table_exports_csv(tab, address):
    open_page(tab, address, f"?page=compiles&run={RECOMPILE}")
    with tab.expect_download() as download:
        tab.locator("[data-csv=compilation-cache]").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert lines[0] == "state,off: every start compiles again"


def test_a_spreadsheet_takes_no_name_for_a_formula(tab, tmp_path):
    from tpuprof_dashboard.store import Store

    trace = training_trace()
    formulas = ["=HYPERLINK(1)", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1"]
    for row, name in enumerate(formulas):
        trace.tpu(0).line("XLA Ops").event(start=600 + 20 * row, duration=10, name=name, display=name)
    with served(Store([trace.write(tmp_path / "x.xplane.pb")])) as url:
        open_page(tab, url, "?page=ops")
        with tab.expect_download() as download:
            tab.get_by_role("button", name="CSV of ops-by-op").click()
        rows = rows_of(download.value)
        names = {next(iter(row.values())) for row in rows}
        assert {f"'{name}" for name in formulas} <= names
        assert not any(name.strip().startswith(tuple("=+-@")) for name in names)


@pytest.mark.slow("another pass over every page")
@pytest.mark.parametrize("page", BY_KEY)
def test_every_table_has_its_csv(tab, address, page):
    open_page(tab, address, f"?page={page}&run={FSDP}&with={RECOMPILE}")
    if page == "compare":
        tab.wait_for_selector("#comparison")
    plain = tab.locator("#page table:not([class*=ag-])").count()
    grids = tab.locator("#page .ag-root-wrapper").count()
    # Grids out of sight are drawn when they are scrolled to; their buttons are there.
    assert tab.locator("#page [data-csv]").count() == plain
    assert tab.locator("#page button:has-text('CSV')").count() >= plain + grids


def test_order_and_filters_of_a_table_are_kept_in_the_address(tab, address):
    open_page(tab, address, f"?page=steps&run={RECOMPILE}")
    grid = tab.locator("#page .ag-root-wrapper").last
    grid.get_by_text("wall ms", exact=True).click()
    grid.get_by_text("wall ms", exact=True).click()
    tab.wait_for_url("**t.steps=**desc**")
    open_page(tab, tab.url)
    grid = tab.locator("#page .ag-root-wrapper").last
    grid.scroll_into_view_if_needed()
    grid.locator("[col-id='wall ms'][aria-sort=descending]").wait_for()
    assert grid.locator("[row-index='0'] [col-id=step]").inner_text() == "7"
    filtered = quote('{"f":{"step":{"filterType":"number","type":"equals","filter":5}}}')
    open_page(tab, address, f"?page=steps&run={RECOMPILE}&t.steps={filtered}")
    grid = tab.locator("#page .ag-root-wrapper").last
    grid.scroll_into_view_if_needed()
    grid.locator("[row-index='0'] [col-id=step]:has-text('5')").wait_for()
    assert grid.locator(".ag-center-cols-container .ag-row").count() == 1


def test_a_damaged_table_state_is_left_alone(tab, address):
    open_page(tab, address, f"?page=steps&run={RECOMPILE}&t.steps=%7Bnot-json&t.outliers=[1]")
    tab.wait_for_selector("#page .ag-root-wrapper")
    assert tab.locator("#page .ag-root-wrapper").count() >= 1


@pytest.mark.slow("one more way through pages that open above")
def test_ops_are_shown_by_wasted_time(tab, address, runs):
    open_page(tab, address, f"?page=ops&run={runs['offload']}")
    tab.wait_for_selector("#ops-tree .treemaplayer .slice")
    tab.get_by_role("link", name="flame graph").click()
    tab.wait_for_selector("#ops-tree .iciclelayer .slice")
    tab.get_by_role("link", name="Most wasted time first").click()
    tab.locator("[col-id='wasted ms'][aria-sort=descending]").wait_for()


def test_the_menu_and_the_run_lead_elsewhere_and_back(tab, address):
    open_page(tab, address, f"?run={RECOMPILE}&theme=dark")
    tab.get_by_role("link", name="Ops").click()
    tab.wait_for_url("**page=ops**")
    tab.get_by_text("Device time", exact=True).wait_for()
    assert "theme=dark" in tab.url
    tab.go_back()
    tab.wait_for_selector("#verdict")
    tab.get_by_role("textbox", name="Run").click()
    tab.get_by_role("option", name="decoder_fsdpv2").click()
    tab.wait_for_selector("#verdict:has-text('Collective-bound')")
    assert "decoder_fsdpv2" in tab.url


@pytest.mark.slow("one more way through pages that open above")
def test_the_theme_is_kept_in_the_address(tab, address):
    open_page(tab, address, f"?run={RECOMPILE}")
    tab.get_by_label("Dark").press("Space")
    tab.wait_for_selector("html[data-mantine-color-scheme=dark]")
    assert "theme=dark" in tab.url
    # Tables and charts follow.
    assert tab.locator("#themed").get_attribute("data-ag-theme-mode") == "dark"


def test_pages_are_reached_with_the_keyboard(tab, address):
    open_page(tab, address, f"?run={RECOMPILE}")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the page"
    for _ in range(20):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.textContent") == "Steps":
            break
    tab.keyboard.press("Enter")
    tab.wait_for_url("**page=steps**")


@pytest.mark.slow("one more way through pages that open above")
def test_a_step_opens_in_the_timeline(tab, address):
    open_page(tab, address, f"?page=steps&run={RECOMPILE}")
    tab.get_by_role("link", name="timeline").nth(3).click()
    tab.wait_for_selector("#timeline .main-svg >> nth=0")
    assert "start=" in tab.url


@pytest.mark.own_tab
def test_the_ticket_is_made_only_when_asked(tab, address):
    """A button that appears with a page starts nothing."""
    open_page(tab, address, f"?page=steps&run={RECOMPILE}")
    asked = []
    tab.on("request", lambda request: asked.append(request.post_data or ""))
    tab.get_by_role("link", name="Overview").click()
    tab.wait_for_selector("#ticket")
    tab.wait_for_load_state("networkidle")
    assert not [each for each in asked if "ticket-download" in each]


def test_a_tables_link_is_followed_with_the_keyboard(tab, address):
    open_page(tab, address, f"?page=steps&run={RECOMPILE}")
    cell = tab.locator("#page .ag-root-wrapper").last.locator("[row-index='2'] [col-id=step]")
    cell.scroll_into_view_if_needed()
    cell.click()
    tab.keyboard.press("Control+ArrowRight")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**page=timeline**")
    assert "start=" in tab.url


def test_code_is_copied_with_the_keyboard(tab, address):
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_page(tab, address, f"?page=findings&run={RECOMPILE}&open=recompiles-shape")
    tab.get_by_role("button", name="Copy").last.press("Enter")
    tab.get_by_role("button", name="Copied").wait_for()
    assert "pad" in tab.evaluate("navigator.clipboard.readText()")


@pytest.mark.slow("one more way through pages that open above")
def test_two_steps_in_the_address_are_compared(tab, address):
    open_page(tab, address, f"?page=steps&run={RECOMPILE}&a=3&b=0")
    assert "Step 7 took" in tab.inner_text("#step-difference")
    assert "shorter, mostly Compiling" in tab.inner_text("#step-difference")


def test_compare_says_first_whether_it_is_fair(tab, address):
    open_page(tab, address, f"?page=compare&run={RECOMPILE}&with={FSDP}")
    tab.wait_for_selector("#comparison")
    text = tab.inner_text("#page")
    assert text.index("Is it a fair comparison?") < text.index("Step time")
    assert "device count" in text
    assert "95 % bounds" in text
    assert "Collective-bound" in text
    screenshot(tab, "compare-two-light")


def test_runs_that_do_not_compare_show_why_and_no_figures(tab, address, runs):
    open_page(tab, address, f"?page=compare&run={RECOMPILE}&with={runs['offload']}")
    tab.wait_for_selector("#outcome")
    assert "Not comparable" in tab.inner_text("#outcome")
    assert "95 % bounds" not in tab.inner_text("#page")


def test_several_runs_are_compared_with_the_first(tab, address, runs):
    both = f"{runs['training']}|{runs['fsdp']}"
    open_page(tab, address, f"?page=compare&run={RECOMPILE}&with={both}")
    tab.wait_for_selector("#comparison")
    text = tab.inner_text("#page")
    assert "All against the base" in text
    assert text.count("decoder_fsdpv2") >= 2
    tab.locator("#comparison a").nth(1).click()
    tab.wait_for_url("**show=1**")
    tab.wait_for_selector("h2:has-text('decoder_fsdpv2'):has-text(' against the base')")


@pytest.mark.slow("one more way through pages that open above")
def test_a_run_whose_name_holds_a_bar_is_compared(tab, tmp_path):
    from tpuprof_dashboard.store import Store

    paths = [
        training_trace().write(tmp_path / name / "x.xplane.pb") for name in ("one", "two|half 100%", "three")
    ]
    store = Store(paths)
    with served(store) as url:
        open_page(tab, url, f"?page=compare&run={quote(str(paths[0]))}")
        tab.get_by_role("textbox", name="Compare with").click()
        tab.get_by_role("option", name="two|half").click()
        tab.wait_for_selector("#comparison")
        assert "with=" in tab.url
        open_page(tab, tab.url)
        tab.wait_for_selector("#comparison")
        tab.wait_for_selector(".mantine-MultiSelect-pill")
        (label,) = (each for name, each in store.labels().items() if "two|half" in name)
        assert label.startswith("two|half 100%/x, ")
        assert tab.locator(".mantine-MultiSelect-pill").all_inner_texts() == [label]


def test_a_predicted_run_says_so_wherever_it_opens(tab, address, runs):
    open_page(tab, address, f"?run={runs['offload']}")
    assert "Predicted, not measured" in tab.inner_text("#verdict")
    assert "a prediction has device times only" in tab.inner_text("#page")
    open_page(tab, address, f"?page=transfers&run={runs['offload']}")
    assert "Predicted" in tab.inner_text("#page")
    screenshot(tab, "transfers-offload-light")


def test_an_unknown_run_is_refused_without_its_path_being_read(tab, address):
    open_page(tab, address, "?run=/etc/passwd")
    assert "no such run here" in tab.inner_text("#failure")


def test_a_run_without_steps_says_what_to_do(tab, address, runs):
    open_page(tab, address, f"?run={runs['empty']}")
    text = tab.inner_text("#page")
    assert "Nothing in the trace says where a step begins" in text
    assert "Low confidence" in text


def test_ticked_findings_are_priced_together(tab, address):
    open_page(tab, address, f"?page=findings&run={RECOMPILE}")
    tab.get_by_role("checkbox").first.check()
    tab.wait_for_selector("#what-if-result:has-text('would take')")


def test_the_ticket_report_is_a_redacted_bundle(tab, tmp_path):
    from tpuprof_dashboard.store import Store

    path = training_trace().write(tmp_path / "home" / "someone" / "secret-project" / "x.xplane.pb")
    with served(Store([path])) as url:
        open_page(tab, url)
        with tab.expect_download() as download:
            tab.get_by_role("button", name="Make ticket report").click()
        with zipfile.ZipFile(download.value.path()) as bundle:
            manifest = json.loads(bundle.read("manifest.json"))
            report = bundle.read("report.json").decode()
    assert manifest["redacted"] is True
    assert str(tmp_path) not in report
    assert json.loads(report)["steps"]["count"] == 4


def test_compiles_show_the_cache_and_steps_the_outlier(tab, address):
    open_page(tab, address, f"?page=compiles&run={RECOMPILE}")
    assert "off: every start compiles again" in tab.inner_text("#page")
    open_page(tab, address, f"?page=steps&run={RECOMPILE}")
    assert "Compiling +1.00 s" in tab.inner_text("#page")
    assert "times one before it" in tab.inner_text("#steadiness")


def test_the_input_page_says_what_is_wrong_with_the_loader(tab):
    from playwright.sync_api import expect
    from tpuprof_dashboard.store import Store

    with served(Store([SAMPLES / "input_starved"])) as url:
        open_page(tab, url, "?page=tracing")
        expect(tab.locator("#page")).to_contain_text(
            "no prefetch: training makes its own batches", timeout=20_000
        )


def test_a_finding_leads_to_its_rules_page(tab):
    from tpuprof_dashboard.store import Store

    with served(Store([SAMPLES / "decoder_loop"])) as url:
        open_page(tab, url, "?page=findings")
        tab.get_by_role("button", name="while the host traces").click()
        tab.get_by_role("link", name="About this rule").click()
        tab.get_by_text("Limits and false positives").wait_for()
        assert "id=tracing-bound" in tab.url
        text = tab.inner_text("#page")
        assert "@assume_pure\ndef model(x, *weights):" in text
        assert "In this run: To fix" in text
