"""Pages ask nobody but the dashboard, follow the operating system's theme, and are readable on a phone."""

from pathlib import Path

import pytest

from tests.dashboard.conftest import (
    PHONE,
    assert_report_is_readable,
    open_page,
    screenshot,
    served,
)

pytest.importorskip("dash")
from tpuprof_dashboard.components.layout import CHART_CONFIG
from tpuprof_dashboard.run_labels import run_labels
from tpuprof_dashboard.runs import Source
from tpuprof_dashboard.store import Store

from tpuprof.analysis.analyze import analyze_run
from tpuprof.render.html import render_html

SAMPLES = Path(__file__).parents[2] / "sample_traces"


@pytest.fixture(scope="module")
def address():
    with served(Store([SAMPLES / "recompile_shapes", SAMPLES / "decoder_fsdpv2"])) as url:
        yield url


@pytest.mark.own_tab
def test_no_button_of_a_chart_leads_elsewhere(tab, address):
    """Every button of a chart is pressed; the tab's fixture fails where another site is asked."""
    opened = []
    tab.context.on("page", lambda page: opened.append(page.url))
    open_page(tab, address, "?page=steps")
    tab.wait_for_selector(".modebar-btn", state="attached")
    titles = tab.evaluate("[...document.querySelectorAll('.modebar-btn')].map(each => each.dataset.title)")
    assert len(titles) >= 6
    assert not any(
        word in title.lower() for title in titles for word in ("share", "cloud", "studio", "edit", "plotly")
    )
    for number in range(len(titles)):
        tab.evaluate(f"document.querySelectorAll('.modebar-btn')[{number}].click()")
    assert opened == []
    assert CHART_CONFIG["plotlyServerURL"] == ""


@pytest.mark.own_tab
def test_a_script_of_the_page_reaches_no_other_address(tab, address):
    """What plotly's upload does, and what an injected script would try: the browser refuses each."""
    open_page(tab, address)
    asked, refused = [], []
    tab.on("request", lambda request: asked.append(request.url) if "cloud.example" in request.url else None)
    tab.on("requestfailed", lambda request: refused.append(request.failure))
    tab.evaluate("""async () => {
        const said = [];
        const note = event => said.push(event.effectiveDirective);
        document.addEventListener("securitypolicyviolation", note);
        await fetch("https://cloud.example/x").catch(() => 0);
        try { new WebSocket("wss://cloud.example/x"); } catch (error) { said.push("connect-src"); }
        navigator.sendBeacon("https://cloud.example/x", "1");
        const add = (name, values) => document.body.appendChild(Object.assign(document.createElement(name), values));
        add("img", {src: "https://cloud.example/x"});
        add("script", {src: "https://cloud.example/x"});
        add("iframe", {src: "https://cloud.example/x"});
        add("form", {action: "https://cloud.example/x", method: "post"}).submit();
        window.refusedDirectives = said;
    }""")
    # The browser says so when it gets to it: the test's timeout is the limit.
    expected = ["connect-src", "img-src", "script-src-elem", "frame-src", "form-action"]
    tab.wait_for_function("all => all.every(each => window.refusedDirectives.includes(each))", arg=expected)
    # What the browser lists as requests it refused itself, by the policy, before anything was sent.
    assert refused == ["csp"] * len(asked)
    words = ("Content Security Policy", "violates", "cloud.example")
    tab.problems[:] = [each for each in tab.problems if not any(word in each for word in words)]


@pytest.mark.own_tab
def test_the_theme_is_the_operating_systems_until_one_is_chosen(tab, address):
    tab.emulate_media(color_scheme="dark")
    open_page(tab, address)
    tab.wait_for_selector("html[data-mantine-color-scheme=dark]")
    assert "theme" not in tab.url
    tab.emulate_media(color_scheme="light")
    tab.wait_for_selector("html[data-mantine-color-scheme=light]")
    tab.get_by_label("Dark").press("Space")
    tab.wait_for_selector("html[data-mantine-color-scheme=dark]")
    assert "theme=dark" in tab.url
    tab.get_by_label("Dark").press("Space")
    tab.wait_for_selector("html[data-mantine-color-scheme=light]")
    assert "theme" not in tab.url
    tab.emulate_media(color_scheme="no-preference")


def test_the_address_names_the_run_and_back_leaves_the_page(tab, address):
    tab.goto("about:blank")
    open_page(tab, address)
    assert "run=" in tab.url
    tab.go_back()
    assert tab.url == "about:blank"


def test_where_the_keyboard_is_can_be_seen(tab, address):
    open_page(tab, address)
    seen = 0
    for _ in range(30):
        tab.keyboard.press("Tab")
        ring = tab.evaluate("""() => { const style = getComputedStyle(document.activeElement);
            return [document.activeElement.tagName, style.outlineStyle, parseFloat(style.outlineWidth)]; }""")
        if ring[0] == "BODY":
            break
        assert ring[1] == "solid", ring
        assert ring[2] >= 2, ring
        seen += 1
    assert seen > 15


@pytest.mark.parametrize("sample", ["recompile_shapes", "decoder_fsdpv2", "predicted_decoder_offload"])
def test_the_html_report_is_accessible_and_readable_on_a_phone(tab, tmp_path, sample):
    path = tmp_path / "report.html"
    path.write_text(render_html(analyze_run(SAMPLES / sample)), "utf-8")
    for theme in ("light", "dark"):
        assert_report_is_readable(tab, path, theme, PHONE)
        screenshot(tab, f"report-{sample}-{theme}-phone", whole=False)
    tab.emulate_media(color_scheme="no-preference")


def test_runs_are_called_by_their_folder_and_time():
    def run(path, changed=1_700_000_000.0):
        return Source(path, Path(path), Path("/"), changed)

    def names(*runs):
        return [label.rpartition(", ")[0] for label in run_labels(runs).values()]

    assert names(run("/logs/demo/plugins/profile/2026_11_22")) == ["demo"]
    # Captures of one folder are told apart by their minute, and else by more of their path.
    again = run("/logs/demo/plugins/profile/b", 1_700_000_600.0)
    assert names(run("/logs/demo/plugins/profile/a"), again) == ["demo", "demo"]
    assert len(set(run_labels([run("/logs/demo/plugins/profile/a"), again]).values())) == 2
    assert names(run("/one/x.xplane.pb"), run("/two/x.xplane.pb")) == ["one/x", "two/x"]
    same = [run("/logs/demo/plugins/profile/a"), run("/logs/demo/plugins/profile/b")]
    assert len(set(run_labels(same).values())) == 2
