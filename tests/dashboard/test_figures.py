"""Figures as data: what is drawn, its units, and that names are text."""

import re
from dataclasses import replace

import pytest

from tests.builders import TraceBuilder
from tests.dashboard.conftest import HOSTILE, hostile_trace, training_trace
from tpuprof.analysis.analyze import analyze_run

pytest.importorskip("dash")
from tpuprof_dashboard.components.share_trees import buffer_leaves, op_leaves
from tpuprof_dashboard.figures.flame import flame
from tpuprof_dashboard.figures.iterations import iterations
from tpuprof_dashboard.figures.memory_course import memory_course
from tpuprof_dashboard.figures.roofline import roofline
from tpuprof_dashboard.figures.share_tree import FLAME, MAX_PARTS, Leaf, share_tree
from tpuprof_dashboard.figures.step_stack import step_stack
from tpuprof_dashboard.figures.timeline import timeline
from tpuprof_dashboard.report_lanes import report_extent, report_lanes
from tpuprof_dashboard.store import Loading, Store
from tpuprof_dashboard.timeline_view import MAX_BARS, Window, around, chosen_lanes, clamp, draw

from tpuprof.render.flame import icicle
from tpuprof.report.memory import MemoryMoment
from tpuprof.report.schema import OpRow
from tpuprof.report.sections import HostStackRow


def report_of(trace, tmp_path):
    return analyze_run(trace.write(tmp_path / "x.xplane.pb"))


def lanes_of(trace, tmp_path):
    store = Store([trace.write(tmp_path / "x.xplane.pb")])
    store.details(store.names()[0])
    store._pool.shutdown(wait=True)
    details = store.details(store.names()[0])
    assert not isinstance(details, Loading)
    return details.hosts["x"]


def texts(figure):
    for trace in figure.data:
        for value in (trace.name, trace.hovertemplate, trace.text, trace.hovertext, trace.x, trace.y):
            yield from (
                [value] if isinstance(value, str) else [each for each in value or () if isinstance(each, str)]
            )
    yield from figure.layout.yaxis.ticktext or ()


def test_bars_of_a_step_sum_to_its_wall_time(samples):
    report = analyze_run(samples / "recompile_shapes")
    figure = step_stack(report)
    for position, step in enumerate(report.steps.per_step):
        assert sum(bar.y[position] for bar in figure.data) == pytest.approx(step.wall_ms)
    assert "ms" in figure.layout.yaxis.title.text
    outlier = next(row for row, step in enumerate(report.steps.per_step) if step.index == 7)
    assert [(mark.x, mark.text) for mark in figure.layout.annotations] == [(outlier, "↑ 1.01 s")]
    # One compile does not flatten the other steps.
    assert figure.layout.yaxis.range[1] < 50


@pytest.mark.parametrize(("steps", "patterned"), [(120, True), (121, False)])
def test_bars_too_narrow_for_a_pattern_have_none(steps, patterned):
    from tests.report.reports import report

    figure = step_stack(report([10.0] * steps))
    shapes = [bar.marker.pattern.shape for bar in figure.data if bar.name == "Exposed tracing"]
    assert shapes == (["x"] if patterned else [None])


def test_hostile_names_are_text_in_every_figure(tmp_path):
    host = lanes_of(hostile_trace(), tmp_path)
    drawn = draw(chosen_lanes(host, None), Window(host.start, host.end))
    figures = [step_stack(report_of(hostile_trace(), tmp_path)), timeline(drawn)]
    for figure in figures:
        found = "\n".join(texts(figure)).replace("<br>", "").replace("<extra></extra>", "")
        markup = found.replace("<b>", "", found.count("<b>")).replace("</b>", "")
        assert "<" not in markup
        assert "&lt;" in found
    assert any("&lt;script" in text for text in texts(figures[1]))
    assert len(HOSTILE) == 5


@pytest.mark.parametrize("by", ["module", "source", "op"])
def test_a_tree_of_ops_adds_up_to_the_device_time_of_the_breakdown(samples, by):
    report = analyze_run(samples / "predicted_decoder_offload")
    leaves, unit = op_leaves(report, by)
    listed = sum(op.self_ms_per_step for op in report.ops) + (report.ops_left_out.self_ms_per_step or 0)
    assert unit == "ms per step"
    assert sum(each.size for each in leaves) == pytest.approx(listed)
    (trace,) = share_tree(leaves, "device time", unit).data
    assert sum(trace.values) == pytest.approx(listed)
    # Every part stands in one that is drawn, and none is more than all.
    assert set(trace.parents) - {""} <= set(trace.ids)
    shares = [float(each) for text in trace.hovertext[1:] for each in re.findall(r"([\d.]+) % of all", text)]
    assert len(shares) == sum("% of all" in text for text in trace.hovertext)
    assert max(shares) <= 100


def test_a_tree_of_buffers_is_no_larger_than_the_peak(samples):
    memory = analyze_run(samples / "predicted_decoder_offload").memory
    for by in ("module", "source", "op"):
        leaves, unit = buffer_leaves(memory, by)
        assert unit in ("GiB", "MiB", "KiB")
        (trace,) = share_tree(leaves, "at the peak", unit, FLAME).data
        scale = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10}[unit]
        own = sum(each.bytes for each in memory.buffers if each.kind != "host")
        assert sum(trace.values) * scale == pytest.approx(max(memory.peak_bytes, own))


def test_a_tree_of_many_parts_draws_few_and_loses_none():
    leaves = [Leaf((HOSTILE[0], f"{HOSTILE[1]}{number}"), 1.0 + number) for number in range(3 * MAX_PARTS)]
    # What holds others and has a size of its own.
    leaves += [Leaf((HOSTILE[0],), 10.0**7), Leaf(("nothing",), 0.0)]
    (trace,) = share_tree(leaves, "all", "ms").data
    assert len(trace.ids) <= MAX_PARTS + 3
    assert sum(trace.values) == pytest.approx(sum(each.size for each in leaves))
    assert "(itself)" in trace.labels
    assert f"({2 * MAX_PARTS + 1:,} smaller parts)" in trace.labels
    assert "nothing" not in trace.labels
    shown = (
        "".join([*trace.labels, *trace.hovertext]).replace("<b>", "").replace("</b>", "").replace("<br>", "")
    )
    assert "<" not in shown


def test_a_timeline_draws_each_bar_where_it_lies_in_ms(tmp_path):
    host = lanes_of(training_trace(), tmp_path)
    lanes = [each for each in host.lanes if each.title == "Steps"]
    figure = timeline(draw(lanes, Window(host.start, host.end)))
    frame, arrows, bars = figure.data
    assert (len(frame.x), len(arrows.x)) == (0, 0)
    assert list(zip(bars.base, bars.x, bars.text, strict=True)) == [
        (0, 1, "step 0"),
        (1, 1, "step 1"),
        (2, 3, "step 2"),
        (5, 1, "step 3"),
    ]


def test_a_timeline_of_many_events_draws_few_bars(tmp_path):
    trace = TraceBuilder()
    line = trace.host().line("python")
    for number in range(20_000):
        line.event(f"e{number % 5}", number * 10, 4)
    host = lanes_of(trace, tmp_path)
    drawn = draw(chosen_lanes(host, None), Window(host.start, host.end))
    assert sum(len(row.bars) for row in drawn.rows) <= MAX_BARS
    assert sum(int(row.bars.count.sum()) for row in drawn.rows) >= 20_000
    hovers = [text for text in texts(timeline(drawn)) if "merged to one bar" in text]
    assert hovers


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (None, None, (0, 1_000_000)),
        (100, 200, (100_000, 200_000)),
        (200, 100, (0, 1_000_000)),
        (-(10**18), 10**18, (-50_000, 1_050_000)),
    ],
)
def test_a_window_lies_inside_the_trace(start, end, expected):
    assert clamp(start, end, 0, 1_000_000) == expected


def test_a_span_is_shown_with_room_around_it():
    assert around(1_000_000, 1.0) == (750_000, 2_250_000)
    low, high = around(1_000, 0.0)
    assert low < 1_000 < high


def op_row(name, flops, size, rate, limit):
    row = OpRow(name, "fusion", "compute", "m", 1, 1.0, 1.0, flops, size, "", "")
    return replace(row, flops_per_s=rate, limit=limit, flops_per_byte=flops / size if size else None)


def test_the_roofline_shows_what_the_model_says_limits_an_op():
    rows = [
        op_row("slim", 10**9, 10**9, 1e12, "memory"),
        op_row("fat", 10**12, 10**9, 1e14, "compute"),
        op_row("untold", None, None, None, ""),
    ]
    figure = roofline(rows, peak_flops=1e14, peak_bytes=1e12)
    by_name = {each.name: each for each in figure.data}
    assert list(by_name["limited by memory bandwidth"].x) == [1.0]
    assert list(by_name["limited by compute"].y) == [1e14]
    assert roofline(rows[2:], 1e14, 1e12) is None


def test_iterations_that_stand_out_are_marked():
    figure = iterations([1.0, 1.1, 5.0], [2, 7])
    assert [list(each.x) for each in figure.data] == [[0, 1, 2], [2]]


def test_memory_over_the_program_is_drawn_in_a_unit_that_fits():
    moments = [MemoryMoment(0, "a", 2**20), MemoryMoment(1, HOSTILE[0], 3 * 2**20)]
    figure = memory_course(moments, 4 * 2**20)
    assert list(figure.data[0].y) == [1.0, 3.0]
    assert figure.layout.yaxis.title.text == "MiB"
    assert figure.layout.shapes[0].y0 == 4.0
    assert "<img" not in figure.data[0].hovertext[1]
    assert not memory_course(moments, 2**30).layout.shapes


def test_a_report_alone_draws_its_steps_compiles_and_evidence():
    from tests.report.reports import finding, report

    found = report((10.0, 25.0), compiles=[(1, 14.0)], findings=[finding()])
    lanes = report_lanes(found)["host-a"]
    assert [(each.title, each.events) for each in lanes] == [
        ("Steps", 2),
        ("Bound by", 2),
        ("Compiles", 1),
        ("Evidence", 1),
    ]
    # The evidence lasts from 1.5 ms to 414 ms, the steps to 35 ms.
    assert report_extent(lanes) == (0, 414_000_000_000)


def test_stacks_of_the_host_are_drawn_with_their_time_and_are_text():
    rows = [
        HostStackRow("host:sleep", ["<module> (/u/a.py:1)", HOSTILE[0]], "f()", "", "", 30.0, 0.0, 3),
        HostStackRow("tracing", ["<module> (/u/a.py:1)", "step (/v/b.py:2)"], "f()", "", "", 10.0, 4.0, 3),
    ]
    (drawn,) = flame(icicle(rows)).data
    assert drawn.branchvalues == "remainder"
    assert sum(drawn.values) == pytest.approx(44.0)
    words = [*drawn.labels, *(text for row in drawn.customdata for text in row)]
    assert "&lt;module&gt; (a.py:1)" in words
    assert not [text for text in words if "<" in text or "%{" in text]
    hidden = [
        colour for label, colour in zip(drawn.labels, drawn.marker.colors, strict=True) if "b.py" in label
    ]
    assert [len(colour) for colour in hidden] == [7, 9]
