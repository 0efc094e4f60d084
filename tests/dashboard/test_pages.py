"""Every page in a real Chromium: it opens, shows its main claim, and survives runs with nothing or hostile names in it."""

from pathlib import Path

import pytest

from tests.dashboard.conftest import (
    HOSTILE,
    SAMPLES,
    assert_accessible,
    assert_fits_a_phone,
    open_page,
    screenshot,
    served,
)

pytest.importorskip("dash")
from tpuprof_dashboard.pages.registry import BY_KEY

from tpuprof.analysis.analyze import analyze_run

RECOMPILE = str(SAMPLES / "recompile_shapes")
FSDP = str(SAMPLES / "decoder_fsdpv2")
# One pass per page; the second has the same pages in other colours.
THEMES = pytest.mark.parametrize(
    "theme", ["light", pytest.param("dark", marks=pytest.mark.slow("a second pass over every page"))]
)
CLAIMS = {
    "overview": "Compile-bound",
    "findings": "to fix",
    "timeline": "Longest events of the window",
    "steps": "mostly Compiling",
    "tracing": "Autograd",
    "compiles": "an input changed",
    "ops": "Device time",
    "transfers": "No op of this run communicates",
    "memory": "Memory",
    "scan": "No loops",
    "hosts": "One host",
    "job": "No watched job",
    "goodput": "No watched job",
    "compare": "Compare with",
    "rule": "All rules",
}


@pytest.fixture(scope="module")
def address(runs):
    from tpuprof_dashboard.store import Store

    with served(Store(list(runs.values()))) as url:
        yield url


def foreign_links(tab):
    """What the page's links and forms lead to besides itself."""
    script = """() => [...document.querySelectorAll("a[href], form[action], area[href]")]
        .map(each => each.href || each.action).filter(each => new URL(each).origin !== location.origin)"""
    return set(tab.evaluate(script))


def test_every_page_has_a_claim_to_check():
    from tpuprof_dashboard.pages.registry import PAGES

    assert [page.key for page in PAGES] == list(CLAIMS)


def test_figures_of_pages_lead_to_the_signals_and_rules_that_made_them():
    from tpuprof_dashboard.pages.registry import PAGES

    from tpuprof.rules.registry import all_rules
    from tpuprof.signals import signal_units

    # These show events, findings, jobs or other runs, whose figures are other pages'.
    without = {page.key for page in PAGES if not page.signals}
    assert without == {"findings", "timeline", "job", "goodput", "compare", "rule"}
    read = {name for rule in all_rules() for name in rule.reads}
    for page in PAGES:
        assert set(page.signals) <= set(signal_units())
        assert not page.signals or set(page.signals) & read


@THEMES
@pytest.mark.parametrize("page", CLAIMS)
def test_a_page_shows_its_main_claim(tab, address, page, theme):
    open_page(tab, address, f"?page={page}&run={RECOMPILE}&theme={theme}")
    assert CLAIMS[page] in tab.inner_text("#page")
    if BY_KEY[page].signals:
        tab.locator("#made-from summary").click()
        assert tab.locator("#made-from tbody tr").count() == len(BY_KEY[page].signals)
        assert "id=" in tab.locator("#made-from tbody a").first.get_attribute("href")
    assert tab.locator("html").get_attribute("data-mantine-color-scheme") == theme
    screenshot(tab, f"{page}-{theme}")
    assert_accessible(tab)
    title = BY_KEY[page].title
    assert tab.title().startswith(f"{title} · recompile_shapes, ")
    assert tab.locator("h1").count() == tab.locator("main").count() == 1
    assert foreign_links(tab) == set()
    assert_fits_a_phone(tab)
    screenshot(tab, f"phone-{page}-{theme}", whole=False)


# The run that has most to show on a page, and what it then says.
RICHEST = {
    "tracing": ("scan", "Scan bodies traced"),
    "transfers": ("fsdp", "Collectives by layer"),
    "memory": ("fsdp", "Over the program"),
    "scan": ("scan", "Iterations of while"),
    "hosts": ("hosts", "host1 is late"),
    "ops": ("offload", "Most wasted time first"),
}


@pytest.mark.slow("a second run on pages that open above")
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", RICHEST)
def test_a_page_with_much_to_show(tab, address, runs, page, theme):
    run, claim = RICHEST[page]
    open_page(tab, address, f"?page={page}&run={runs[run]}&theme={theme}")
    assert claim in tab.inner_text("#page")
    screenshot(tab, f"{page}-rich-{theme}")
    assert_accessible(tab)


# A capture whose steps recompile; the rest open the same screen.
FIRST_SCREENS = {"recompile_shapes"}
OTHER_SCREENS = {each.parent.name for each in SAMPLES.glob("*/EXPECTED.toml")} - FIRST_SCREENS


@pytest.mark.parametrize(
    "sample",
    [
        *sorted(FIRST_SCREENS),
        *(
            pytest.param(each, marks=pytest.mark.slow("the same screen of another sample"))
            for each in sorted(OTHER_SCREENS)
        ),
    ],
)
def test_the_first_screen_says_what_is_slow_and_what_to_try(tab, sample):
    from tpuprof_dashboard.store import Store

    report = analyze_run(SAMPLES / sample)
    with served(Store([SAMPLES / sample])) as url:
        tab.set_viewport_size({"width": 1280, "height": 900})
        open_page(tab, url)
        screenshot(tab, f"first-{sample}", whole=False)
        assert tab.inner_text("#verdict") == report.verdict.sentence
        failed = [each for each in report.findings if each.status == "failed"]
        assert failed
        assert tab.inner_text("#try-first").startswith("Try first: ")
        sources = [each.source for each in failed[0].evidence if each.source]
        assert tab.locator("#try-first-source").all_inner_texts() == [f"at {each}" for each in sources[:1]]
        # Without scrolling: what is slow, what to try, and what else was found.
        for seen in ("#verdict", "#try-first", "h2:has-text('What to try')"):
            box = tab.locator(seen).bounding_box()
            assert box["y"] + box["height"] <= 900, seen


def test_the_first_screen_explains_the_verdict_and_says_what_to_measure(tab, address):
    from tpuprof_dashboard.store import Store

    with served(Store([SAMPLES / "device_to_host_sync"])) as url:
        open_page(tab, url)
        assert tab.inner_text("#zeros").startswith("No time goes to: Exposed collectives")
        assert tab.get_by_text("Exposed collectives", exact=True).count() == 0
        assert "The verdict's 46 % is what host and device lose" in tab.inner_text("#verdict-note")
        rows = tab.locator("#plain-why tbody tr").all_inner_texts()
        assert len(rows) > 3
        assert "46 % of the step" in rows[-1]
        assert "sync-bound" in rows[-1]
        commands = tab.locator("#measure-next pre").all_inner_texts()
        # The command that decides most comes first.
        assert commands[0].startswith("tpuprof capture -o /")
        assert commands[1].startswith("tpuprof preflight /")
        assert_accessible(tab)


NOTE_FRAMES = """
window.frameTimes = [];
(function frame() { window.frameTimes.push(performance.now()); requestAnimationFrame(frame); })();
new MutationObserver(function (_, observer) {
  if (!document.getElementById("verdict")) return;
  window.verdictAt = performance.now();
  observer.disconnect();
}).observe(document, { childList: true, subtree: true });
"""


@pytest.mark.own_tab
def test_the_verdict_is_painted_before_its_chart_asks_for_plotly(tab):
    from tpuprof_dashboard.store import Store

    tab.add_init_script(NOTE_FRAMES)
    # An address of its own, whose scripts no earlier page has loaded.
    with served(Store([Path(FSDP)]), port=0) as url:
        open_page(tab, url)
        tab.locator("#step-stack .nsewdrag").wait_for(state="attached")
        asked = tab.evaluate(
            "performance.getEntriesByType('resource').find(each => each.name.includes('plotly.min')).startTime"
        )
        frames = tab.evaluate("window.frameTimes.filter(each => each > window.verdictAt)")
        assert frames[0] < asked


@pytest.mark.shared_traces
def test_the_first_screen_of_the_real_v6e_trace(tab, shared_traces):
    from tpuprof_dashboard.store import Store

    with served(Store([shared_traces / "tpu_v6e_host_offload"])) as url:
        open_page(tab, url)
        assert "Offload-bound: the device waits for 97 %" in tab.inner_text("#verdict")
        assert "Offload less" in tab.inner_text("#try-first")
        assert "peak 20.0 GiB of 31.2 GiB" in tab.inner_text("#page")
        screenshot(tab, "first-v6e", whole=False)


@pytest.mark.parametrize(
    "run", [pytest.param("empty", marks=pytest.mark.slow("another pass over every page")), "hostile"]
)
def test_pages_survive_odd_runs(tab, address, runs, run):
    for page in CLAIMS:
        open_page(tab, address, f"?page={page}&run={runs[run]}")
        text = tab.inner_text("#page")
        assert text.strip(), page
        assert "cannot be shown" not in text, page
        # Names are text wherever they stand: none became an element.
        bad = "#page img, #page script, #page a[href^='javascript' i], #page b"
        assert tab.locator(bad).count() == 0, page


def test_hovers_and_labels_of_charts_show_hostile_names_as_text(tab, address, runs):
    open_page(tab, address, f"?page=timeline&run={runs['hostile']}")
    box = tab.locator("#timeline .nsewdrag").first.bounding_box()
    seen = set()
    for row in range(2, 60):
        tab.mouse.move(box["x"] + box["width"] * 0.04, box["y"] + box["height"] * row / 60)
        hover = tab.locator("#timeline .hoverlayer")
        seen.update(name for name in HOSTILE if name.replace("%{", "% {") in hover.text_content())
        assert tab.locator("#timeline a, #timeline img, #timeline script").count() == 0
    assert seen
    assert tab.problems == []


@pytest.mark.parametrize("page", ["overview", "steps"])
def test_the_legend_of_a_chart_shows_hostile_names_as_text(tab, address, runs, page):
    open_page(tab, address, f"?page={page}&run={runs['hostile']}")
    assert tab.locator("#page svg a, #page svg image[href='x']").count() == 0
