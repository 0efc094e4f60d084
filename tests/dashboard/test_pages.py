"""Every page in a real Chromium: it opens, shows its main claim, and survives a run with nothing in it."""

from pathlib import Path

import pytest

from tests.dashboard.conftest import empty_trace, hostile_trace, open_page, screenshot, served, training_trace

pytest.importorskip("dash")
SAMPLES = Path(__file__).parents[2] / "sample_traces"
PAGES = ["overview", "findings", "timeline", "compiles", "ops"]
RECOMPILE = str(SAMPLES / "recompile_shapes")
LOOP = str(SAMPLES / "decoder_loop")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {
        "recompile": SAMPLES / "recompile_shapes",
        "loop": SAMPLES / "decoder_loop",
        "hostile": hostile_trace().write(folder / "hostile" / "x.xplane.pb"),
        "empty": empty_trace().write(folder / "empty" / "x.xplane.pb"),
        "training": training_trace().write(folder / "training" / "x.xplane.pb"),
    }


@pytest.fixture(scope="module")
def address(runs):
    from tpuprof_dashboard.store import Store

    with served(Store(list(runs.values()))) as url:
        yield url


CLAIMS = {
    "overview": "Compile-bound",
    "findings": "No findings",
    "timeline": "Longest events of the window",
    "compiles": "an input changed",
    "ops": "Device time",
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_its_main_claim(tab, address, page, theme):
    open_page(tab, address, f"?page={page}&run={RECOMPILE}&theme={theme}")
    assert CLAIMS[page] in tab.inner_text("#page")
    assert tab.locator("html").get_attribute("data-mantine-color-scheme") == theme
    screenshot(tab, f"{page}-{theme}")


@pytest.mark.parametrize("run", ["empty", "hostile"])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_survives_odd_runs(tab, address, runs, page, run):
    open_page(tab, address, f"?page={page}&run={runs[run]}")
    assert "cannot be shown" not in tab.inner_text("#page")
    assert tab.inner_text("#page").strip()
    # Names are text wherever they stand: none became an element.
    assert tab.locator("#page img, #page script, #page a[href^='javascript']").count() == 0
