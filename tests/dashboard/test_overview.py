"""The dashboard in a real Chromium, and its figures as data."""

import shutil
import threading
from pathlib import Path

import pytest

from tests.builders import TraceBuilder
from tpuprof.analyse import analyse_run

pytest.importorskip("dash")
SAMPLES = Path(__file__).parents[2] / "sample_traces"
HOSTILE = "<img src=x onerror=alert(1)>%{y}"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def hostile_trace():
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(3):
        python.event("train", 1000 * number, 900, _r=1, step_num=number)
        python.event("StepMarker", 1000 * number + 800, 50)
        python.event(HOSTILE, 1000 * number + 100, 300, tpuprof="annotation", traced_ops=0)
        trace.tpu(0).line("XLA Ops").event(start=1000 * number, duration=50, name=HOSTILE, display=HOSTILE)
    return trace


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    path = hostile_trace().write(tmp_path_factory.mktemp("hostile") / "x.xplane.pb")
    empty = TraceBuilder()
    empty.tpu(0).line("XLA Modules").event("f(1)", 0, 10)
    no_steps = empty.write(tmp_path_factory.mktemp("empty") / "x.xplane.pb")
    return {
        "recompile": analyse_run(SAMPLES / "recompile_shapes"),
        "hostile": analyse_run(path),
        "no steps": analyse_run(no_steps),
    }


@pytest.fixture(scope="module")
def page(reports):
    """A browser page and the address of an app that shows the reports."""
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    from tpuprof_dashboard.app import create_app
    from werkzeug.serving import make_server

    server = make_server("127.0.0.1", 0, create_app(reports).server, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        tab = browser.new_page(viewport={"width": 1280, "height": 1400})
        tab.problems, tab.elsewhere = [], []
        tab.on(
            "console", lambda message: tab.problems.append(message.text) if message.type == "error" else None
        )
        tab.on("pageerror", lambda error: tab.problems.append(str(error)))
        tab.on("dialog", lambda dialog: tab.problems.append("a dialog opened"))
        tab.on(
            "request",
            lambda r: (
                tab.elsewhere.append(r.url) if "127.0.0.1" not in r.url and r.url[:4] == "http" else None
            ),
        )
        yield tab, f"http://127.0.0.1:{server.server_port}/"
        browser.close()
    server.shutdown()


@pytest.mark.parametrize("name", ["recompile", "hostile", "no steps"])
def test_a_run_shows_its_verdict_without_errors(page, reports, name):
    tab, address = page
    tab.goto(f"{address}?run={name}")
    tab.wait_for_function(
        "text => document.querySelector('#verdict')?.innerText === text", arg=reports[name].verdict.sentence
    )
    tab.wait_for_load_state("networkidle")
    assert tab.problems == []
    assert tab.elsewhere == []


def test_tables_and_tiles_show_what_the_report_says(page, reports):
    tab, address = page
    tab.goto(f"{address}?run=recompile")
    tab.wait_for_selector(".ag-row")
    text = tab.inner_text("body")
    assert reports["recompile"].compiles[0].graph_hash in text
    assert "Exposed tracing" in text


def test_a_run_without_steps_says_what_to_do(page):
    tab, address = page
    tab.goto(f"{address}?run=no steps")
    tab.wait_for_selector("text=No steps to draw")
    assert "unavailable" in tab.inner_text("body")


def test_a_table_exports_csv(page):
    tab, address = page
    tab.goto(f"{address}?run=recompile")
    tab.wait_for_selector(".ag-row")
    with tab.expect_download() as download:
        tab.get_by_role("button", name="CSV").first.click()
    assert download.value.suggested_filename == "steps-table.csv"


def test_bars_of_a_step_sum_to_its_wall_time(reports):
    from tpuprof_dashboard.figures.step_stack import step_stack

    report = reports["recompile"]
    figure = step_stack(report)
    for position, step in enumerate(report.steps.per_step):
        assert sum(bar.y[position] for bar in figure.data) == pytest.approx(step.wall_ms)
    assert "ms" in figure.layout.yaxis.title.text


def test_hover_text_is_harmless(reports):
    from tpuprof_dashboard.figures.step_stack import step_stack

    templates = [bar.hovertemplate for bar in step_stack(reports["hostile"]).data]
    assert not any("<img" in template for template in templates)


def test_another_machine_is_refused():
    from tpuprof.cli.dashboard import dashboard
    from tpuprof.errors import TpuprofError

    with pytest.raises(TpuprofError, match="SSH tunnel"):
        dashboard([SAMPLES / "recompile_shapes"], host="0.0.0.0", port=0, no_browser=True)
