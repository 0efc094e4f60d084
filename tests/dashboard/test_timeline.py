"""The timeline in a real Chromium: zoom asks the server for more, from the mouse and from the keyboard."""

import gzip
import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.builders import TraceBuilder
from tests.dashboard.conftest import HOSTILE, assert_accessible, open_page, screenshot, served, training_trace

pytest.importorskip("dash")
from tpuprof_dashboard.components.event_panel import details_in, picked_state


def busy_trace():
    """A training thread with more events than a screen has pixels."""
    trace = training_trace(steps=4, step_us=50_000)
    line = trace.host().line("busy")
    for number in range(6_000):
        line.event(f"e{number % 3}", number * 50, 20)
    trace.host().line("launcher").event("Enqueue", 40_000, 20, run_id=1, device_ordinal=0, note=HOSTILE[0])
    return trace


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield from _served(tmp_path_factory)


def _served(tmp_path_factory):
    from tpuprof_dashboard.store import Store

    with served(Store([busy_trace().write(tmp_path_factory.mktemp("busy") / "x.xplane.pb")])) as url:
        yield url


def shown(tab):
    """The window in the address, in ms."""
    state = parse_qs(urlsplit(tab.url).query)
    return int(state["start"][0]) / 1e6, int(state["end"][0]) / 1e6


def test_dragging_zooms_and_the_server_tells_events_apart(tab, address):
    open_page(tab, address, "?page=timeline")
    assert "stand for several events" in tab.inner_text("#timeline-note")
    box = tab.locator("#timeline .nsewdrag").first.bounding_box()
    y = box["y"] + 20
    tab.mouse.move(box["x"] + box["width"] * 0.50, y)
    tab.mouse.down()
    tab.mouse.move(box["x"] + box["width"] * 0.52, y, steps=8)
    tab.mouse.up()
    tab.wait_for_url("**start=**")
    tab.wait_for_selector("#timeline-note:not(:has-text('stand for several'))")
    low, high = shown(tab)
    assert 140 < low < high < 165
    assert "busy" in tab.inner_text("#timeline-events")


def test_buttons_move_the_window_and_all_shows_all(tab, address):
    open_page(tab, address, "?page=timeline&start=100000000&end=200000000")
    tab.get_by_role("button", name="Zoom in").press("Enter")
    tab.wait_for_url("**start=125000000**")
    assert shown(tab) == (125, 175)
    tab.get_by_role("button", name="Later").click()
    tab.wait_for_url("**start=150000000**")
    assert shown(tab) == (150, 200)
    tab.get_by_role("button", name="All").click()
    tab.wait_for_url(lambda url: "start=" not in url)


def test_keys_zoom_and_move_as_in_trace_viewers(tab, address):
    open_page(tab, address, "?page=timeline&start=100000000&end=200000000")
    for key, window in (("w", (125, 175)), ("d", (150, 200)), ("a", (125, 175)), ("S", (100, 200))):
        tab.keyboard.press(key)
        tab.wait_for_url(f"**start={window[0]}000000**")
        assert shown(tab) == window
    tab.get_by_placeholder("Go to a step").press("w")
    tab.get_by_placeholder("Go to a step").press("Control+a")
    assert shown(tab) == (100, 200)


def test_the_wheel_zooms_at_the_pointer_with_ctrl_alone(tab, address):
    """A pinch arrives as the same event."""
    open_page(tab, address, "?page=timeline&start=100000000&end=200000000")
    box = tab.locator("#timeline .nsewdrag").first.bounding_box()
    tab.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 20)
    tab.mouse.wheel(0, -120)
    tab.keyboard.down("Control")
    for _ in range(3):
        tab.mouse.wheel(0, -120)
    tab.keyboard.up("Control")
    tab.wait_for_url(lambda url: "start=100000000&" not in f"{url}&")
    low, high = shown(tab)
    # Three notches at 0.2 % per unit leave 49 % of the window, a quarter of it left of the pointer.
    assert high - low == pytest.approx(48.7, abs=1)
    assert (125 - low) / (high - low) == pytest.approx(0.25, abs=0.02)


def test_events_of_all_lanes_are_found_by_name(tab, address):
    open_page(tab, address, "?page=timeline&lanes=steps")
    tab.get_by_placeholder("Find events by name").fill("E2")
    tab.wait_for_selector("#timeline-found :text('2,000')")
    tab.locator("#timeline-found .ag-center-cols-container [role=row]").first.wait_for()
    assert "busy" in tab.inner_text("#timeline-found")
    tab.locator("#timeline-found a:has-text('show')").first.click()
    tab.wait_for_url("**start=**")
    tab.wait_for_selector("#timeline .ytick:has-text('busy')")
    low, high = shown(tab)
    assert 0 < high - low < 1
    assert "2,000" in tab.inner_text("#timeline-found")
    tab.get_by_placeholder("Find events by name").fill("no such event")
    tab.wait_for_selector("#timeline-found :text('No event')")


def test_a_step_is_chosen_by_its_number(tab, address):
    open_page(tab, address, "?page=timeline")
    tab.get_by_placeholder("Go to a step").click()
    tab.get_by_role("option", name="step 2").click()
    tab.wait_for_url("**start=**")
    low, high = shown(tab)
    assert low < 100 < 250 < high


def test_lanes_chosen_are_kept_in_the_address(tab, address):
    open_page(tab, address, "?page=timeline&lanes=steps,host:1")
    tab.wait_for_selector("#timeline .ytick")
    ticks = tab.locator("#timeline .ytick").all_text_contents()
    assert ticks == ["Steps", "busy"]
    tab.get_by_role("textbox", name="Pinned lanes").click()
    tab.get_by_role("option", name="launcher (1)").click()
    tab.wait_for_url("**pin=host**")
    tab.wait_for_selector("#timeline .ytick:has-text('launcher')")
    assert tab.locator("#timeline .ytick").all_text_contents() == ["launcher", "Steps", "busy"]


def test_a_step_of_the_first_screen_opens_in_the_timeline(tab, address):
    open_page(tab, address)
    tab.locator("#step-stack .nsewdrag").wait_for(state="attached")
    box = tab.locator("#step-stack .nsewdrag").bounding_box()
    tab.mouse.move(box["x"] + box["width"] * 0.62, box["y"] + box["height"] * 0.9)
    tab.mouse.click(box["x"] + box["width"] * 0.62, box["y"] + box["height"] * 0.9)
    tab.wait_for_url("**page=timeline**")
    low, high = shown(tab)
    assert low < 100 < 250 < high


def test_the_window_downloads_for_perfetto(tab, address):
    open_page(tab, address, "?page=timeline&start=100000000&end=100100000")
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Download for Perfetto").click()
    data = json.loads(gzip.decompress(Path(download.value.path()).read_bytes()))
    names = [each["name"] for each in data["traceEvents"] if each["ph"] == "X"]
    assert "train" in names
    assert len([name for name in names if name.startswith("e")]) == 2


PERFETTO = """<script>
addEventListener("message", (event) => {
  if (event.data === "PING") event.source.postMessage("PONG", event.origin);
  else document.title = new TextDecoder().decode(event.data.perfetto.buffer);
});
</script>"""


def test_the_window_opens_in_perfetto(tab, address):
    """The Perfetto UI is played by a page that answers as it does: this machine reaches no other site."""
    tab.context.route(
        "https://ui.perfetto.dev/**", lambda route: route.fulfill(body=PERFETTO, content_type="text/html")
    )
    open_page(tab, address, "?page=timeline&start=100000000&end=100100000")
    with tab.context.expect_page() as opened:
        tab.get_by_role("button", name="Open in Perfetto").press("Enter")
    opened.value.wait_for_function("document.title.includes('traceEvents')")
    names = [each["name"] for each in json.loads(opened.value.title())["traceEvents"] if each["ph"] == "X"]
    opened.value.close()
    tab.context.unroute("https://ui.perfetto.dev/**")
    assert "train" in names


def test_sorting_the_events_draws_nothing_anew(tab, address):
    open_page(tab, address, "?page=timeline")
    tab.wait_for_selector("#timeline .ytick")
    tab.evaluate("document.querySelector('#timeline .js-plotly-plot').same = true")
    tab.locator("#timeline-events").get_by_text("name", exact=True).click()
    tab.wait_for_url("**t.timeline-events=**")
    tab.wait_for_load_state("networkidle")
    assert tab.evaluate("document.querySelector('#timeline .js-plotly-plot').same")
    assert tab.locator("#timeline-events [col-id=name][aria-sort=ascending]").count() == 1


PLACES = """() => {
    const [frame, arrows] = document.querySelector('#timeline .js-plotly-plot').data;
    return [frame.x.length, [...arrows.x], [...arrows.y]];
}"""


def test_a_clicked_event_has_details_and_arrows_along_its_launch(tab, address):
    """A program's run was enqueued 10 ms before it began; the arrow appears once both lanes are drawn."""
    open_page(tab, address, "?page=timeline&start=30000000&end=120000000")
    tab.evaluate("document.querySelector('#timeline .js-plotly-plot').same = true")
    tab.wait_for_selector("#timeline .barlayer .point", state="attached")
    bar = tab.locator("#timeline .barlayer .point", has_text="step(7)").first.bounding_box()
    tab.mouse.click(bar["x"] + 20, bar["y"] + 8)
    tab.wait_for_url("**event=device**")
    tab.wait_for_selector("#plain-event :text('50.000000 ms from the start')")
    # The chart is not drawn again for it, but for what marks the event.
    assert tab.evaluate("document.querySelector('#timeline .js-plotly-plot').same")
    tab.wait_for_function(f"() => ({PLACES})()[0] === 5")
    assert tab.evaluate(PLACES)[1] == []
    assert "run_id" in tab.inner_text("#plain-event")
    assert "10.000" in tab.inner_text("#plain-event-by")
    tab.get_by_role("link", name="show both").click()
    tab.wait_for_selector("#timeline .ytick:has-text('launcher')")
    tab.wait_for_function(f"() => ({PLACES})()[1].length === 3")
    _, times, rows = tab.evaluate(PLACES)
    assert times[:2] == [40, 50]
    names = tab.locator("#timeline .ytick").all_text_contents()
    assert names.index("TPU:0 programs") < names.index("launcher")
    assert rows[0] > rows[1]
    screenshot(tab, "timeline-event")
    tab.locator("#plain-event-by").get_by_role("link", name="Enqueue").click()
    tab.wait_for_selector("#plain-event-to :text('step(7)')")
    assert HOSTILE[0] in tab.inner_text("#plain-event")
    assert_accessible(tab)
    tab.get_by_label("Note on the picked event").fill(f"too early {HOSTILE[0]}")
    tab.get_by_role("button", name="Save note").click()
    tab.wait_for_selector("#timeline .ytick:has-text('Notes')")
    assert f"too early {HOSTILE[0]}" in tab.inner_text("#plain-notes")
    assert_accessible(tab)
    screenshot(tab, "timeline-notes")
    tab.get_by_role("button", name="Delete the note 1").click()
    tab.wait_for_selector("#plain-notes", state="detached")
    tab.wait_for_selector("#timeline .ytick:has-text('Notes')", state="detached")
    tab.get_by_role("link", name="Close").click()
    tab.wait_for_selector("#plain-event", state="detached")


def test_several_hosts_are_chosen_by_name(tab, tmp_path):
    from tpuprof_dashboard.store import Store

    for name, steps in (("one", 3), ("two", 5)):
        training_trace(steps).write(tmp_path / "run" / f"{name}.xplane.pb")
    with served(Store([tmp_path / "run"])) as url:
        open_page(tab, url, "?page=timeline")
        tab.get_by_role("link", name="two").click()
        tab.wait_for_selector("#page:has-text('Steps (5)')")
        open_page(tab, url, "?page=hosts")
        assert "two" in tab.inner_text("#page")


def test_a_trace_without_events_says_so(tab, tmp_path):
    from tpuprof_dashboard.store import Store

    trace = TraceBuilder()
    trace.tpu(0).line("XLA Modules").event("f(1)", 0, 10)
    with served(Store([trace.write(tmp_path / "x.xplane.pb")])) as url:
        open_page(
            tab, url, "?page=timeline&start=999999999999&end=9999999999999&lanes=nothing&host=nobody&mark=x-y"
        )
        assert "TPU:0 programs" in tab.inner_text("#page")


def test_moving_about_asks_for_no_details_while_no_event_is_picked():
    class Host:
        def __getattr__(self, name):
            raise AssertionError(f"{name} is asked for")

    assert details_in({"page": "timeline", "start": "5"}, Host()) is None
    assert picked_state({"page": "timeline", "start": "5"}) == picked_state(
        {"page": "timeline", "start": "6"}
    )
    assert picked_state({"event": "a", "start": "5"}) != picked_state({"event": "a", "start": "6"})
