"""All hosts in one timeline: on one clock, with details, notes and findings of each."""

from types import SimpleNamespace

import pytest

from tests.builders import TraceBuilder, op
from tests.dashboard.conftest import assert_accessible, open_page, screenshot, served
from tests.pod.pods import trace

pytest.importorskip("dash")
from tpuprof_dashboard.all_hosts import ALL_HOSTS, SHOWN_HOSTS, all_hosts
from tpuprof_dashboard.components.event_panel import details_in
from tpuprof_dashboard.components.timeline_controls import steps_of
from tpuprof_dashboard.pages import tracing
from tpuprof_dashboard.store import Loading, Store
from tpuprof_dashboard.timeline_view import event_key, lanes_shown

from tpuprof.report.span_note import SpanNote

# How far the second host's clock is ahead (ns).
AHEAD = 5_000_000


def alone():
    """Three steps of a host that meets no other."""
    built = TraceBuilder()
    for step in range(3):
        built.host().line("python").event("train_step", 1000 * step, 900, _r=1, step_num=step)
        built.tpu(0).line("XLA Ops").event(start=1000 * step + 100, duration=700, **op("fusion.1"))
    return built


def written(folder, hosts):
    """The run of these hosts, each of which began that much later than the first by its own clock (ns)."""
    profile = folder / "plugins" / "profile" / "x"
    profile.mkdir(parents=True, exist_ok=True)
    for name, (built, later) in hosts.items():
        for plane in built.space.planes:
            for line in plane.lines:
                line.timestamp_ns += later
        (profile / f"{name}.xplane.pb").write_bytes(built.space.SerializeToString())
    return folder


def loaded(folder):
    store = Store([folder])
    name = store.names()[0]
    store.report(name), store.details(name)
    store._pool.shutdown(wait=True)
    details = store.details(name)
    assert not isinstance(details, Loading)
    return all_hosts(details, store.report(name)), details, store.report(name)


def starts(lane):
    return lane.lane.rows[0].levels[0].start.tolist()


@pytest.mark.parametrize(
    ("hosts", "said"), [(("a", "b"), "Times are means over the steps of all 2 hosts."), (("a",), None)]
)
def test_the_page_on_tracing_says_whose_times_it_shows(tmp_path, hosts, said):
    _, _, report = loaded(written(tmp_path, {name: (alone(), 0) for name in hosts}))
    found = tracing._whose(SimpleNamespace(report=report))
    assert (found.children if found is not None else None) == said


def test_hosts_that_meet_no_other_stand_by_their_own_clocks(tmp_path):
    together, details, _ = loaded(written(tmp_path, {"a": (alone(), 0), "b": (alone(), AHEAD)}))
    assert [together.shift_of(name) for name in ("a", "b", "c")] == [0, AHEAD * 1000, None]
    one, other = (
        next(each for each in together.lanes if each.title == f"{name}: Steps") for name in ("a", "b")
    )
    assert [after - before for before, after in zip(starts(one), starts(other), strict=True)] == [
        AHEAD * 1000
    ] * 3
    assert together.end == details.hosts["b"].end + AHEAD * 1000
    # The lanes of one host stay as they are.
    assert starts(details.hosts["b"].lanes[0]) == starts(one)


def test_hosts_that_meet_are_brought_together_by_their_collectives(tmp_path):
    hosts = {"a": (trace((0, 300)), 0), "b": (trace((300, 300)), AHEAD)}
    together, _, _ = loaded(written(tmp_path, hosts))
    ends = [
        row.levels[0].end.tolist()
        for name in ("a", "b")
        for lane in together.lanes
        if lane.title.startswith(f"{name}: TPU") and "all-reduce.1" in lane.lane.names
        for row in lane.lane.rows
    ]
    assert len(ends) == 2
    assert ends[0] == ends[1]


def test_an_event_has_the_details_of_its_host_and_notes_go_there(tmp_path):
    together, _, report = loaded(written(tmp_path, {"a": (alone(), 0), "b": (alone(), AHEAD)}))
    ops = next(each for each in together.lanes if each.title.startswith("b: TPU"))
    start = starts(ops)[1]
    found = details_in({"event": event_key(ops.key, 0, start)}, together)
    assert (found.recorded, found.chosen.start, found.hlo.split(" = ")[0]) == (True, start, "%fusion.1")
    one, own = together.of_one_host(found.chosen)
    assert (one.name, own.start) == ("b", start - AHEAD * 1000)
    shift, step = steps_of(report, together)[0]
    assert (shift, step.host) == (0, "a")


def test_the_first_hosts_are_drawn_and_others_can_be_chosen(tmp_path):
    count = SHOWN_HOSTS + 1
    together, _, _ = loaded(written(tmp_path, {f"h{row}": (alone(), row) for row in range(count)}))
    drawn = {each.title.partition(":")[0] for each in lanes_shown(together, {})}
    assert drawn == {f"h{row}" for row in range(SHOWN_HOSTS)}
    last = next(each.key for each in together.lanes if each.title.startswith(f"h{SHOWN_HOSTS}: "))
    assert [each.key for each in lanes_shown(together, {"lanes": last})] == [last]


def test_one_host_alone_is_no_run_of_several(tmp_path):
    together, _, _ = loaded(written(tmp_path, {"a": (alone(), 0)}))
    assert together is None


def test_all_hosts_in_the_browser(tab, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    hosts = {"a": (trace((0, 300)), 0), "b": (trace((300, 300)), AHEAD)}
    store = Store([written(tmp_path / "runs", hosts)])
    with served(store) as url:
        open_page(tab, url, "?page=timeline")
        tab.get_by_role("link", name="All hosts").click()
        tab.wait_for_selector("#timeline .ytick:has-text('b: Steps')")
        assert "one clock" in tab.inner_text("main")
        assert "collective" in tab.inner_text("main")
        assert_accessible(tab)
        screenshot(tab, "timeline-all-hosts")
        bar = tab.locator("#timeline .barlayer .point", has_text="f(1)").last.bounding_box()
        tab.mouse.click(bar["x"] + 10, bar["y"] + 6)
        tab.wait_for_selector("#plain-event")
        tab.get_by_label("Note on the picked event").fill("late here")
        tab.get_by_role("button", name="Save note").click()
        tab.wait_for_selector("#timeline .ytick:has-text(': Notes')")
        name = store.names()[0]
        (note,) = store.report(name).span_notes
        assert isinstance(note, SpanNote)
        assert note.host in hosts
        tab.get_by_role("link", name="Show on its host").click()
        tab.wait_for_selector("#timeline .ytick:has-text('Notes')")
        tab.wait_for_selector(".tpu-event:has-text('f(1)')")
        assert f"host={ALL_HOSTS}" not in tab.url
