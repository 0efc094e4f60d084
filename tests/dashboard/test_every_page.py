"""Every page and every HTML report, in both themes, on a desk and on a phone: axe-core finds nothing."""

import pytest

from tests.dashboard.conftest import PHONE, assert_accessible, assert_report_is_readable, open_page, served
from tests.dashboard.test_trust import SAMPLES
from tests.watch.simulated import Training
from tpuprof.analysis.analyze import analyze_run
from tpuprof.render.html import render_html

pytest.importorskip("dash")
from tpuprof_dashboard.pages.registry import PAGES
from tpuprof_dashboard.store import Store

pytestmark = pytest.mark.slow("four passes over every page and report; make test has one")

DESK = {"width": 1280, "height": 1000}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    training = Training(folder, step_seconds=1.0)
    for number in range(200):
        training.step(save_seconds=3.0 * (number % 60 == 9))
    training.ledger.flush()
    with served(Store([SAMPLES / "decoder_fsdpv2", SAMPLES / "device_to_host_sync", folder])) as url:
        yield url


@pytest.mark.parametrize("page", [each.key for each in PAGES])
def test_pages(tab, address, page):
    for size in (DESK, PHONE):
        tab.set_viewport_size(size)
        for theme in ("light", "dark"):
            open_page(tab, address, f"?page={page}&theme={theme}")
            assert tab.evaluate("document.documentElement.scrollWidth") <= size["width"]
            assert_accessible(tab)


@pytest.mark.parametrize(
    "sample", sorted(each.name for each in SAMPLES.iterdir() if (each / "tpuprof").is_dir())
)
def test_reports(tab, tmp_path, sample):
    path = tmp_path / "report.html"
    path.write_text(render_html(analyze_run(SAMPLES / sample)), "utf-8")
    for size in (DESK, PHONE):
        for theme in ("light", "dark"):
            assert_report_is_readable(tab, path, theme, size)
    tab.emulate_media(color_scheme="no-preference")
