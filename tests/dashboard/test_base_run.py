"""One base run: every page says what changed since it, and the whole comparison says the same."""

from pathlib import Path

import pytest

from tests.dashboard.conftest import assert_accessible, open_page, screenshot, served

pytest.importorskip("dash")

SAMPLES = Path(__file__).parents[2] / "sample_traces"
RECOMPILE = str(SAMPLES / "recompile_shapes")
FSDP = str(SAMPLES / "decoder_fsdpv2")


@pytest.fixture(scope="module")
def address():
    from tpuprof_dashboard.store import Store

    with served(Store([Path(RECOMPILE), Path(FSDP)])) as url:
        yield url


BASE_CHANGES = {
    "overview": "Where a step's time goes",
    "findings": "predicted gain of the fix",
    "steps": "median step without compiles",
    "tracing": "Of the mean step; those that changed most first.",
    "compiles": "1 in 6 steps",
    "ops": "Ops that changed",
    "transfers": "Of the mean step; those that changed most first.",
    "memory": "HBM at the peak",
    "hosts": "",
}


# The page where a base is chosen first, and one with a table; the rest is a second pass over every page.
ONCE = ("overview", "compiles")
ANOTHER = pytest.mark.slow("another pass over every page")


@pytest.mark.parametrize(
    "page", [each if each in ONCE else pytest.param(each, marks=ANOTHER) for each in BASE_CHANGES]
)
def test_every_page_says_what_changed_since_the_base(tab, address, page):
    open_page(tab, address, f"?page={page}&run={FSDP}&base={RECOMPILE}")
    tab.wait_for_selector("#against a")
    assert "Against the base, recompile_shapes" in tab.inner_text("#against")
    assert_accessible(tab)
    screenshot(tab, f"base-{page}-light")
    changes = tab.inner_text("#page").partition("What changed since the base")[2]
    assert BASE_CHANGES[page] in changes
    assert bool(changes) == bool(BASE_CHANGES[page])
    # The whole comparison has the same base.
    said = tab.locator("#against p").inner_text()
    tab.click("#against a")
    tab.wait_for_selector("#comparison")
    assert tab.inner_text("#outcome") == said


def test_a_base_is_chosen_in_the_header_and_stays(tab, address):
    open_page(tab, address, f"?run={FSDP}")
    assert tab.locator("#against").count() == 0
    tab.click("#base")
    tab.get_by_role("option", name="recompile_shapes").click()
    tab.wait_for_selector("#against a")
    assert "against the base" in tab.inner_text("#page")
    tab.click("#menu >> text=Ops")
    tab.wait_for_selector("#changes")
    open_page(tab, address, f"?run={RECOMPILE}&base={RECOMPILE}")
    assert tab.locator("#against").count() == 0
    open_page(tab, address, f"?run={FSDP}&base=gone")
    assert "no such run here" in tab.inner_text("#against")


def test_the_address_that_is_printed_names_the_base(tmp_path):
    from tpuprof_dashboard.serve import _with_base
    from tpuprof_dashboard.store import Store

    store = Store([Path(FSDP), Path(RECOMPILE)])
    assert _with_base("http://a/?token=x", store, Path(RECOMPILE)).startswith("http://a/?token=x&base=%2F")
    assert _with_base("http://a/", store, Path(RECOMPILE).parent).startswith("http://a/?base=")
    assert _with_base("http://a/", store, None) == "http://a/"
    store.close()
