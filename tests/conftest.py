"""Fixtures every test may use."""

import gc
import importlib.util
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# No test is timed: an example may wait for an import, or for a busy machine. `make test-all` is thorough. A test that
# needs more examples than others takes a multiple of the profile's number.
settings.register_profile("quick", deadline=None, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=100)
settings.load_profile("quick")

ROOT = Path(__file__).resolve().parent.parent
SWITCH_INTERVAL_S = sys.getswitchinterval()
SHARED_TRACES = ROOT.parent / "shared" / "traces"
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


# Files and folders that take longest, the longest first: workers that take a file at a time end together where the last
# ones are short.
LONG = (
    "dashboard/test_page",
    "dashboard/test_timeline",
    "dashboard/",
    "preflight/",
    "capture/",
    "watch/",
    "instrument/",
    "scenarios/",
    "expect/",
    "prove/",
    "packaging/",
    "storage/",
    "report/",
    "pod/",
    "advice/",
)


def _place(item: pytest.Item) -> int:
    path = item.path.as_posix()
    return next((place for place, part in enumerate(LONG) if f"/tests/{part}" in path), len(LONG))


# Tests in a browser that `make test` runs: every page, once. What is done on pages, `make test-browser` runs.
EVERY_PAGE = "dashboard/test_pages.py"


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files come first. Every test that `make test` leaves out says why."""
    items.sort(key=_place)
    for item in items:
        if "tab" in getattr(item, "fixturenames", ()) and not item.path.as_posix().endswith(EVERY_PAGE):
            item.add_marker(pytest.mark.browser)
    silent = [each.nodeid for each in items for mark in each.iter_markers("slow") if not mark.args]
    if silent:
        raise pytest.UsageError(f'say why: pytest.mark.slow("..."): {silent}')


def pytest_configure() -> None:
    """A shell may have begun the tests in the background."""
    heed_signals()


def heed_signals() -> None:
    """What tests start heeds Ctrl-C and a lost terminal: it inherits what this process ignores."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) in (signal.SIG_IGN, signal.SIG_DFL):  # native code may have changed it
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: no garbage collection has to walk it again."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests that need torch_xla are skipped without it. It is looked for and not imported, which takes seconds."""
    heed_signals()  # a test before may have loaded libtpu, which ignores a lost terminal
    if item.get_closest_marker("torch_xla") and importlib.util.find_spec("torch_xla") is None:
        pytest.skip("torch_xla is not installed")


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """The folder of real TPU traces that are kept outside the repository; the test is skipped without it."""
    if not SHARED_TRACES.is_dir():
        pytest.skip("the real TPU traces are not on this machine (../shared/traces)")
    return SHARED_TRACES


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory) -> None:
    """Keep the reports that commands cache away from the user's."""
    os.environ["TPUPROF_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def settings_of_the_process():
    """Each test begins with Python's own: commands that ran in this process set it up for an analysis."""
    gc.enable()
    sys.setswitchinterval(SWITCH_INTERVAL_S)


@pytest.fixture(scope="session")
def samples() -> Path:
    """The folder of the project's own sample traces."""
    return ROOT / "sample_traces"


@pytest.fixture(scope="session")
def playwright():
    """There is one for all tests: Playwright does not run twice in one thread."""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as running:
        yield running


@pytest.fixture(scope="session")
def chromium_options():
    """Debian's Chromium, or Chrome, and how it is started."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    return {"executable_path": path, "args": CHROMIUM_FLAGS}


@pytest.fixture(scope="session")
def chromium(playwright, chromium_options):
    """A browser that keeps nothing: each context begins empty."""
    running = playwright.chromium.launch(**chromium_options)
    yield running
    running.close()
