"""A dashboard served to a real Chromium."""

import os
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.builders import TraceBuilder, op
from tests.model.test_hosts import host

pytest.importorskip("dash")
from tpuprof_dashboard.pages.registry import BY_KEY
from tpuprof_dashboard.state import read_state, search_of

SAMPLES = Path(__file__).parents[2] / "sample_traces"
# Names a trace may hold to attack whoever looks at it.
HOSTILE = [
    "<img src=x onerror=alert(1)>%{y}",
    "<script>alert(2)</script>",
    '<a href="javascript:alert(3)">click</a>',
    "[x](javascript:alert(4))",
    "<b>bold</b>",
]


def hostile_trace():
    """Three steps whose annotations, ops, programs, categories and sources are all hostile."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    modules, ops = trace.tpu(0).line("XLA Modules"), trace.tpu(0).line("XLA Ops")
    for number in range(3):
        start = 1000 * number
        python.event("train", start, 900, _r=1, step_num=number)
        python.event("StepMarker", start + 800, 50)
        modules.event(f"{HOSTILE[1]}({number})", start, 300)
        for row, name in enumerate(HOSTILE):
            python.event(name, start + 100 * row, 90, tpuprof="annotation", traced_ops=0)
            facts = {"hlo_category": name, "source": f"{name}.py:1", "tf_op": f"{name}/{name}"}
            ops.event(start=start + 50 * row, duration=40, name=name, display=name, facts=facts)
    return trace


def training_trace(steps=4, step_us=1000):
    """Steps of tracing and device work in equal parts, with one long step."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    at = 0
    for number in range(steps):
        wall = step_us * (3 if number == 2 else 1)
        python.event("train", at, wall, _r=1, step_num=number)
        trace.tpu(0).line("XLA Modules").event("step(7)", at, step_us // 2, run_id=number)
        trace.tpu(0).line("XLA Ops").event(start=at, duration=step_us // 2, **op("fusion.1"))
        at += wall
    return trace


def empty_trace():
    """A device that ran one program, and nothing else."""
    trace = TraceBuilder()
    trace.tpu(0).line("XLA Modules").event("f(1)", 0, 10)
    return trace


def two_hosts(folder):
    """The second of two hosts comes late to every all-reduce."""
    for name, late in (("host0", (0, 60)), ("host1", (60, 60))):
        host(late).write(folder / "plugins" / "profile" / "one" / f"{name}.xplane.pb")
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {
        "recompile": SAMPLES / "recompile_shapes",
        "fsdp": SAMPLES / "decoder_fsdpv2",
        "offload": SAMPLES / "predicted_decoder_offload",
        "hostile": hostile_trace().write(folder / "hostile" / "x.xplane.pb"),
        "empty": empty_trace().write(folder / "empty" / "x.xplane.pb"),
        "scan": SAMPLES / "decoder_scan",
        "hosts": two_hosts(folder / "hosts"),
        "training": training_trace().write(folder / "training" / "x.xplane.pb"),
    }


_PORTS = []  # that apps of this process were served at, and are free again
_TABS = []  # that are open
_SIZE = {"width": 1280, "height": 1000}


@contextmanager
def served(store, guard=None, port=None):
    """The address of an app over a store. Tabs leave it before it ends.

    One app after the other has the same address: a browser keeps compiled scripts by address, and the first two
    visits of a new one take twice as long.
    """
    from tpuprof_dashboard.app import create_app
    from werkzeug.serving import make_server

    app = create_app(store, guard).server
    if port is None:
        port = _PORTS.pop() if _PORTS else 0
    server = make_server("127.0.0.1", port, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    try:
        yield address
    finally:
        for page in _TABS:
            if page.url.startswith(address):
                page.goto("about:blank")
        server.shutdown()
        server.server_close()
        _PORTS.append(server.server_port)
        store.close()


@pytest.fixture(scope="session")
def browser(playwright, chromium_options, tmp_path_factory):
    """One browser with a profile of its own for all tests: it keeps the page's scripts, compiled, from test to test."""
    profile = tmp_path_factory.mktemp("chromium")
    running = playwright.chromium.launch_persistent_context(profile, viewport=_SIZE, **chromium_options)
    yield running
    running.close()


@pytest.fixture
def tab(browser, request):
    """A tab that notes console errors, dialogs and requests to other sites; the test fails if there are any.

    It stays for the next test, which goes on from there as a user does, unless a test failed in it or is marked
    `own_tab`, because it leaves something behind.
    """
    own, failed = request.node.get_closest_marker("own_tab"), request.session.testsfailed
    page = _watched(browser) if own or not _TABS else _TABS[0]
    page.set_viewport_size(_SIZE)
    page.mouse.move(0, 0)
    page.problems.clear()
    yield page
    problems = list(page.problems)
    if own or problems or request.session.testsfailed > failed:
        _TABS.remove(page)
        page.close()
    assert problems == []


def _watched(browser):
    page = browser.new_page()
    page.set_default_timeout(60_000)
    page.problems, page.pending = [], set()

    def heard(message):
        if message.type == "error" or "AG Grid" in message.text:
            page.problems.append(message.text)

    def asked(request):
        page.pending.add(request)
        if "127.0.0.1" not in request.url and request.url.startswith("http"):
            page.problems.append(f"asked another site: {request.url}")

    def answered(request):
        page.pending.discard(request)

    page.on("console", heard)
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("dialog", lambda dialog: (page.problems.append("a dialog opened"), dialog.dismiss()))
    page.on("request", asked)
    page.on("requestfinished", answered)
    page.on("requestfailed", answered)
    _TABS.append(page)
    return page


PHONE = {"width": 390, "height": 844}  # what a phone shows of a page, in pixels of CSS


# Whether nothing has come or gone in so many frames. Frames, not milliseconds: while scripts run none is drawn.
SETTLED = """() => {
    if (!window.unchanged) {
        window.unchanged = {frames: 0};
        const again = () => { window.unchanged.frames = 0; };
        new MutationObserver(again).observe(document.body, {subtree: true, childList: true, characterData: true});
    }
    return ++window.unchanged.frames > 15;
}"""


def open_page(tab, address, query=""):
    """Go to a page and wait until it shows its run, charts and tables included.

    From another page of the dashboard the way there is the menu's, without loading all scripts again. To come anew to
    the page that is shown, it goes by another.
    """
    page = BY_KEY.get(read_state(query).get("page", ""))
    if page and tab.url.startswith(address) and tab.title():
        if tab.title().startswith(page.title):
            _turn(tab, query, BY_KEY["goodput" if page.key == "rule" else "rule"])
        _turn(tab, query, page)
    else:
        tab.goto(address + query)
        tab.wait_for_selector("#page > *")
    settle(tab)


def _turn(tab, query, page):
    tab.evaluate(TURN, search_of(read_state(query), page=page.key))
    tab.wait_for_function("title => document.title.startsWith(title)", arg=f"{page.title} · ")


TURN = """query => {
    if (window.unchanged) window.unchanged.frames = 0;
    history.pushState({}, "", query);
    dispatchEvent(new PopStateEvent("popstate"));
}"""


def settle(tab):
    """Wait until the page has all that it asked for, and changes no more."""
    tab.wait_for_selector("#loading", state="detached")
    tab.wait_for_function(SETTLED)
    while tab.pending:
        tab.evaluate("() => { window.unchanged.frames = 0; }")
        tab.wait_for_function(SETTLED)


def assert_accessible(tab):
    """Fail with what axe-core finds wrong with the page, in a line for each rule and element."""
    axe = pytest.importorskip("axe_playwright_python")
    tab.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text("utf-8"))
    found = tab.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    assert [f"{each['id']}: {node['html'][:300]}" for each in found for node in each["nodes"]] == []


def assert_fits_a_phone(tab):
    """Fail where anything but what scrolls by itself is wider than a phone, or a text smaller than 12 pixels."""
    tab.set_viewport_size(PHONE)
    # Charts and tables take their new size when the browser gets to it.
    tab.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=PHONE["width"])
    small = tab.evaluate("""() => [...document.querySelectorAll("#page p, #page h1, #page a, #page td")]
        .filter(each => each.innerText && parseFloat(getComputedStyle(each).fontSize) < 12).length""")
    assert small == 0
    # In a narrower column words break into letters.
    narrow = tab.evaluate("""() => [...document.querySelectorAll("#page .tpu-scroll td.tpu-wrap")]
        .filter(each => each.innerText && each.offsetWidth && each.offsetWidth < 100).map(each => each.innerText)""")
    assert narrow == []


def assert_report_is_readable(tab, path, theme, size):
    """Fail where an HTML report, with all of it unfolded, is wider than the screen or axe-core finds something."""
    tab.set_viewport_size(size)
    tab.emulate_media(color_scheme=theme)
    tab.goto(path.as_uri())
    tab.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert tab.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert_accessible(tab)


def screenshot(tab, name, *, whole=True):
    """Keep a screenshot of the page, or of what the window shows, in artifacts/dashboard (`make test-all` does)."""
    if not os.environ.get("TPUPROF_SCREENSHOTS"):
        return
    folder = Path(__file__).parents[2] / "artifacts" / "dashboard"
    folder.mkdir(parents=True, exist_ok=True)
    tab.wait_for_timeout(400)  # charts and tables fade in; only the picture waits for it
    tab.screenshot(path=folder / f"{name}.png", full_page=whole)
