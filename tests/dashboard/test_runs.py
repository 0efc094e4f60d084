"""Runs come and go: reading in the background, watched folders, uploads, bounded memory."""

import os
import time
from io import BytesIO

import pytest

from tests.dashboard.conftest import HOSTILE, assert_accessible, open_page, served, training_trace

pytest.importorskip("dash")
from tpuprof_dashboard import store as stores
from tpuprof_dashboard.store import Failure, Loading, Store

from tpuprof.model.span_notes import MOST_NOTES
from tpuprof.report.as_json import to_json
from tpuprof.report.schema import Report
from tpuprof.report.span_note import SpanNote


def ready(store, name, ask="report"):
    """What the store says of a run once it has been read."""
    until = time.monotonic() + 60
    while isinstance(found := getattr(store, ask)(name), Loading):
        assert time.monotonic() < until
        time.sleep(0.01)
    return found


@pytest.fixture
def folder(tmp_path):
    training_trace().write(tmp_path / "logs" / "first" / "plugins" / "profile" / "a" / "x.xplane.pb")
    return tmp_path / "logs"


def test_a_note_too_many_is_refused_and_none_is_lost(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    store = Store([folder])
    name = store.names()[0]
    notes = [SpanNote("x", "python", "train", at, 1, f"note {at}", "") for at in range(MOST_NOTES)]
    assert store.note(name, lambda old: [*old, *notes]) is None
    refused = store.note(name, lambda old: [*old, notes[0]])
    assert isinstance(refused, Failure)
    assert "delete one first" in refused.message
    assert [each.text for each in ready(store, name).span_notes] == [each.text for each in notes]
    store.close()


def test_a_run_is_read_without_the_asker_waiting(folder):
    store = Store([folder])
    name = store.names()[0]
    assert isinstance(store.report(name), Loading)
    assert isinstance(ready(store, name), Report)
    store.close()


def test_a_logdir_has_a_run_for_each_capture(folder):
    training_trace(5).write(folder / "second" / "plugins" / "profile" / "b" / "x.xplane.pb")
    store = Store([folder])
    # The newest first.
    assert [name.rsplit("/", 1)[1] for name in store.names()] == ["b", "a"]
    assert [ready(store, name).steps.count for name in store.names()] == [5, 4]
    store.close()


def test_one_capture_goes_by_the_path_it_was_given_by(folder):
    store = Store([folder])
    assert store.names() == [str(folder)]
    store.close()


def test_a_file_that_has_changed_is_read_again(folder):
    store = Store([folder])
    name = store.names()[0]
    assert ready(store, name).steps.count == 4
    path = training_trace(6).write(next(folder.rglob("x.xplane.pb")))
    os.utime(path, (1, 1))
    assert ready(store, name).steps.count == 6
    store.close()


def test_a_failed_run_says_why_and_is_read_again_when_it_changes(folder):
    path = next(folder.rglob("x.xplane.pb"))
    good = path.read_bytes()
    path.write_bytes(good[: len(good) // 2])
    store = Store([path])
    assert isinstance(ready(store, str(path)), Failure)
    path.write_bytes(good)
    assert isinstance(ready(store, str(path)), Report)
    store.close()


def test_the_least_recently_used_run_leaves_first(tmp_path, monkeypatch):
    monkeypatch.setattr(stores, "MAX_REPORTS", 2)
    paths = [training_trace(4 + n).write(tmp_path / str(n) / "x.xplane.pb") for n in range(3)]
    store = Store(paths)
    first, second, third = map(str, paths)
    ready(store, first), ready(store, second), ready(store, first), ready(store, third)
    assert isinstance(store.report(first), Report)
    assert isinstance(store.report(second), Loading)
    store.close()


def test_details_hold_every_lane(folder):
    store = Store([folder])
    details = ready(store, store.names()[0], "details")
    titles = [lane.title for lane in details.hosts["x"].lanes]
    assert titles == ["Steps", "Time went to", "TPU:0 programs", "TPU:0 ops", "python"]
    store.close()


def test_uploads_are_removed_at_the_end(tmp_path):
    store = Store([])
    name = store.upload("../../etc/x.xplane.pb", BytesIO(training_trace().to_bytes()))
    assert name == "upload 1: x.xplane.pb"
    path = store.path(name)
    assert isinstance(ready(store, name), Report)
    store.close()
    assert not path.exists()


def test_a_page_that_takes_long_to_make_is_shown(tab, folder, monkeypatch):
    """Longer than it takes until the page asks again: a slow machine, or a large run."""
    from tpuprof_dashboard import app, shell

    def slowly(*arguments):
        time.sleep(2.5 * shell.POLL_MS / 1_000)
        return made_from(*arguments)

    made_from = app.made_from
    monkeypatch.setattr(app, "made_from", slowly)
    with served(Store([folder])) as address:
        tab.goto(f"{address}?page=steps")
        tab.wait_for_selector("#page h1:text-is('Steps')")


def test_a_new_run_of_a_watched_folder_appears(tab, tmp_path):
    """The first one opens by itself; the next is announced, and the page stays where it is."""
    logdir = tmp_path / "logs"
    logdir.mkdir()
    with served(Store([logdir])) as address:
        tab.goto(address)
        tab.wait_for_selector("#waiting")
        assert tab.title() == "Overview · tpuprof"
        training_trace().write(logdir / "first" / "x.xplane.pb")
        tab.wait_for_selector("#verdict")
        tab.wait_for_url("**run=**")
        box = tab.get_by_role("textbox", name="Run")
        assert box.input_value().startswith("first, ")
        training_trace(7).write(logdir / "second" / "x.xplane.pb")
        tab.wait_for_selector("#new-runs")
        tab.wait_for_selector("#page:has-text('4 steps')")
        before = tab.url
        tab.locator("#new-runs a").click()
        tab.wait_for_selector("#page:has-text('7 steps')")
        tab.wait_for_selector("#new-runs", state="detached")
        assert tab.url != before
        assert box.input_value().startswith("second, ")
        tab.go_back()
        tab.wait_for_selector("#page:has-text('4 steps')")


def choose(tab, name, data):
    """Choose a file with the button in the header."""
    with tab.expect_file_chooser() as chooser:
        tab.get_by_role("button", name="Open a trace").click()
    chooser.value.set_files({"name": name, "mimeType": "", "buffer": data})


def test_an_uploaded_trace_opens_and_is_removed(tab, folder):
    store = Store([folder])
    with served(store) as address:
        open_page(tab, address)
        choose(tab, f"{HOSTILE[0]}.xplane.pb".replace("/", ""), training_trace(6).to_bytes())
        tab.wait_for_url("**run=upload**")
        tab.wait_for_selector("#page:has-text('6 steps')")
        # What paths accept, uploads accept: here a saved report.
        report = to_json(ready(store, str(folder)))
        choose(tab, "report.json", report.encode())
        tab.wait_for_url("**run=upload+2**")
        tab.wait_for_selector("#page:has-text('4 steps')")
        kept = store.path("upload 2: report.json")
        tab.get_by_role("button", name="Remove this upload").click()
        tab.wait_for_url("**run=upload+1**")
        assert not kept.exists()
        assert "upload 2" not in str(store.names())


def answering(status):
    """A route that answers with a status alone."""
    return lambda route: route.fulfill(status=status, body="")


# The page asks the server every five seconds, and when the network comes back.
ASKED_NOW = "() => { dispatchEvent(new Event('online')); }"


@pytest.mark.own_tab
def test_what_goes_wrong_is_told_in_a_banner(tab, folder, monkeypatch):
    from tpuprof_dashboard import shell

    monkeypatch.setattr(shell, "MAX_UPLOAD_BYTES", 1_000_000)
    alert = tab.locator("#tpu-banners")
    with served(Store([folder])) as address:
        open_page(tab, address)
        choose(tab, "large.xplane.pb", bytes(1_000_001))
        alert.get_by_text("large.xplane.pb has 1 MiB, and an upload may have 0.95").wait_for()
        assert_accessible(tab)
        alert.get_by_role("button", name="Close").click()
        assert alert.get_by_role("alert").count() == 0
        # Refused by the server.
        choose(tab, "bomb.json", b"[" + b"," * 999_990)
        tab.wait_for_url("**run=upload**")
        tab.locator("#failure").wait_for()
        for status, text in (
            (401, "Open the address that tpuprof dashboard printed"),
            (500, "failed to answer"),
        ):
            tab.route("**/_tpuprof/alive", answering(status))
            tab.evaluate(ASKED_NOW)
            alert.get_by_text(text).wait_for()
            tab.unroute("**/_tpuprof/alive")
        tab.route("**/_tpuprof/alive", lambda route: route.abort())
        tab.evaluate(ASKED_NOW)
        alert.get_by_text("The dashboard does not answer").wait_for()
        tab.unroute("**/_tpuprof/alive")
        tab.evaluate(ASKED_NOW)
        alert.get_by_text("The dashboard does not answer").wait_for(state="detached")
        tab.route("**/_tpuprof/alive", lambda route: route.fulfill(json={"instance": "another"}))
        tab.evaluate(ASKED_NOW)
        alert.get_by_text("was restarted").wait_for()
        tab.problems[:] = [each for each in tab.problems if "Failed to load resource" not in each]


@pytest.mark.own_tab
def test_an_upload_that_fails_can_be_closed(tab, folder):
    """The message that it is under way becomes the one that it failed."""
    alert = tab.locator("#tpu-banners")
    with served(Store([folder])) as address:
        open_page(tab, address)
        tab.route("**/_tpuprof/upload**", lambda route: route.fulfill(json={"error": "not today"}))
        choose(tab, "t.xplane.pb", b"x")
        alert.get_by_text("Not opened: not today").wait_for()
        alert.get_by_role("button", name="Close").click()
        assert alert.get_by_role("alert").count() == 0
        tab.unroute("**/_tpuprof/upload**")


def test_a_trace_is_dropped_anywhere_on_the_page(tab, folder):
    drop = """bytes => {
      const held = new DataTransfer();
      held.items.add(new File([Uint8Array.from(bytes)], "dropped.xplane.pb"));
      const at = document.querySelector("#verdict");
      for (const type of ["dragover", "drop"]) {
        at.dispatchEvent(new DragEvent(type, { dataTransfer: held, bubbles: true, cancelable: true }));
      }
    }"""
    with served(Store([folder])) as address:
        open_page(tab, address)
        tab.evaluate(drop, list(training_trace(6).to_bytes()))
        tab.wait_for_url("**run=upload**")
        tab.wait_for_selector("#page:has-text('6 steps')")


def test_a_bad_upload_says_what_is_wrong(tab, folder):
    bad = {
        "empty.pb": b"",
        "text.pb": b"no trace at all",
        "cut.pb": b"\x0a\xff\xff\xff\xff\x0f broken",
        "zipped.pb": b"\x1f\x8b broken",
    }
    with served(Store([folder])) as address:
        open_page(tab, address)
        for name, data in bad.items():
            choose(tab, name, data)
            tab.wait_for_selector(f"#failure:has-text('{name}')")
            assert "Traceback" not in tab.inner_text("main, #frame")


def test_a_run_analysed_before_is_not_analysed_again(folder, monkeypatch):
    first = Store([folder])
    before = ready(first, first.names()[0])
    first.close()

    def analysed_again(_run):
        raise AssertionError("the report was in the cache")

    monkeypatch.setattr("tpuprof.analysis.analyze.report_of", analysed_again)
    second = Store([folder])
    assert ready(second, second.names()[0]) == before
    # The timeline reads the trace itself.
    assert "x" in ready(second, second.names()[0], "details").hosts
    second.close()


def test_a_saved_report_is_shown_and_says_what_it_lacks(folder, tmp_path):
    from tpuprof.analysis.analyze import analyze_run
    from tpuprof.report.as_json import to_json

    path = tmp_path / "base.json"
    path.write_text(to_json(analyze_run(folder)))
    store = Store([path])
    name = store.names()[0]
    assert ready(store, name).steps.count == 4
    details = ready(store, name, "details")
    assert details.run is None
    assert [each.title for each in details.hosts["x"].lanes][:2] == ["Steps", "Bound by"]
    assert "saved report" in store.bundle(name, tmp_path / "ticket.zip").message
    store.close()


def test_a_load_tells_how_far_it_is(folder, monkeypatch):
    import threading

    import tpuprof.decode.load as decode

    original, go = decode.load, threading.Event()
    monkeypatch.setattr(decode, "load", lambda path: (go.wait(60), original(path))[1])
    store = Store([folder])
    name = store.names()[0]
    until = time.monotonic() + 60
    while not (found := store.report(name)).doing:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert found.doing.startswith("host 1 of 1, ")
    go.set()
    assert isinstance(ready(store, name), Report)
    store.close()


def test_an_upload_that_is_no_report_says_so():
    store = Store([])
    name = store.upload("report.json", BytesIO(b'{"schema": "tpuprof.report/1"}'))
    assert isinstance(ready(store, name), Failure)
    store.close()


def test_two_runs_are_compared_once_both_are_read(tmp_path):
    paths = [training_trace(12, step).write(tmp_path / str(step) / "x.xplane.pb") for step in (1000, 2000)]
    store = Store(paths)
    base, candidate = map(str, paths)
    until = time.monotonic() + 60
    while isinstance(found := store.comparison(base, candidate), Loading):
        assert time.monotonic() < until
        time.sleep(0.01)
    assert found.outcome == "worse"
    assert found.median.delta == pytest.approx(1.0)
    store.close()
