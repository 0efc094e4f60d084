"""Lanes of a timeline hold what the trace holds, and where its time went."""

import pytest

from tests.builders import TraceBuilder, op
from tpuprof.decode import xplane
from tpuprof.model.host_run import read_host_run
from tpuprof.model.timeline import build_host
from tpuprof.timeline.lanes import MAX_DEPTH, PERIODS, extent, lanes_of
from tpuprof.timeline.search import find_events


def lanes_in(trace, tmp_path):
    path = trace.write(tmp_path / "x.xplane.pb")
    host = build_host(xplane.parse(trace.to_bytes(), "x"), "x")
    run = read_host_run("x", path)
    return {each.title: each for each in lanes_of(host, run)}, run, host


@pytest.fixture
def trace():
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(3):
        at = 1000 * number
        python.event("train", at, 1000, _r=1, step_num=number)
        python.event("forward", at + 10, 300, tpuprof="annotation")
        trace.tpu(0).line("XLA Modules").event("step(7)", at + 400, 500)
        ops = trace.tpu(0).line("XLA Ops")
        ops.event(start=at + 400, duration=400, **op("while.1", "while"))
        ops.event(start=at + 400, duration=200, **op("fusion.2"))
    return trace


def test_lanes_are_of_steps_time_annotations_devices_and_threads(trace, tmp_path):
    lanes, *_ = lanes_in(trace, tmp_path)
    assert list(lanes) == ["Steps", "Time went to", "Annotations", "TPU:0 programs", "TPU:0 ops", "python"]


def test_nested_ops_lie_below_what_holds_them(trace, tmp_path):
    lanes, *_ = lanes_in(trace, tmp_path)
    lane = lanes["TPU:0 ops"].lane
    names = [[lane.names[label] for label in row.levels[0].label] for row in lane.rows]
    assert names == [["while.1"] * 3, ["fusion.2"] * 3]
    assert {lane.groups[label] for label in lane.rows[1].levels[0].label} == {"compute"}


def test_periods_are_what_the_breakdown_sums(trace, tmp_path):
    """The coloured periods of the timeline and the figures of the report are the same split."""
    lanes, run, _ = lanes_in(trace, tmp_path)
    assert lanes["Time went to"].key == PERIODS
    lane = lanes["Time went to"].lane
    bars = lane.rows[0].levels[0]
    assert len(lane.rows) == 1
    totals = {}
    for label, busy in zip(bars.label.tolist(), bars.busy.tolist(), strict=True):
        totals[lane.names[label]] = totals.get(lane.names[label], 0) + busy
    expected = {name: int(column.sum()) for name, column in run.breakdown.parts.items() if column.any()}
    assert totals == expected


def test_events_too_deep_to_draw_are_counted(tmp_path):
    trace = TraceBuilder()
    line = trace.host().line("python")
    for depth in range(MAX_DEPTH + 2):
        line.event(f"level {depth}", depth, 100 - 2 * depth)
    lanes, *_ = lanes_in(trace, tmp_path)
    assert len(lanes["python"].lane.rows) == MAX_DEPTH
    assert lanes["python"].lane.deeper == 2


def test_the_extent_is_that_of_all_lines(trace, tmp_path):
    _, _, host = lanes_in(trace, tmp_path)
    assert extent(host) == (0, 3_000_000_000)


def test_events_are_found_by_name_in_all_lanes_the_longest_first(trace, tmp_path):
    lanes, *_ = lanes_in(trace, tmp_path)
    found, count = find_events(list(lanes.values()), "FUSION", 2)
    assert count == 3
    assert [(each.lane.title, each.name, each.duration) for each in found] == [
        ("TPU:0 ops", "fusion.2", 200_000_000)
    ] * 2
    assert [each.start for each in found] == sorted(each.start for each in found)
    found, count = find_events(list(lanes.values()), "train", 10)
    assert count == 3
    assert {each.duration for each in found} == {1_000_000_000}


def test_a_search_keeps_no_lane_that_is_not_drawn(trace, tmp_path):
    lanes, *_ = lanes_in(trace, tmp_path)
    assert find_events(list(lanes.values()), "nothing is called so", 10) == ([], 0)
    assert all(each._lane is None for each in lanes.values())
