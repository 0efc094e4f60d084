"""The host's time as an icicle: sums, sides, order, and that names are text."""

from dataclasses import replace

import pytest

from tests.report import reports
from tpuprof.render.flame import EXPOSED, HIDDEN, LEAST_SHARE, MAX_DEPTH, icicle, short_frame
from tpuprof.render.flame_svg import flame_graph
from tpuprof.render.html import render_html
from tpuprof.report.sections import HostStackRow


def stack(frames, exposed, hidden=0.0, part="tracing"):
    return HostStackRow(part, list(frames), "f()", "/u/train.py:3", "f()", exposed, hidden, 5)


TRAIN, STEP, SLEEP = "<module> (/u/train.py:3)", "step (/v/torch/optim.py:9)", "rest (/u/train.py:8)"


def test_shared_frames_are_merged_and_inner_ones_lie_in_outer_ones():
    rows = [
        stack([TRAIN, STEP], 6.0, 2.0),
        stack([TRAIN, SLEEP], 30.0, part="host:sleep"),
        stack([TRAIN], 4.0),
    ]
    cells = icicle(rows)
    assert {each.name: each.ms for each in cells if each.parent < 0} == {EXPOSED: 40.0, HIDDEN: 2.0}
    train = next(each for each in cells if each.name == TRAIN and each.branch == EXPOSED)
    assert (train.ms, train.part) == (40.0, "host:sleep")
    assert [each.name for each in cells if each.branch == EXPOSED] == [EXPOSED, TRAIN, SLEEP, STEP]
    for each in cells:
        if each.parent >= 0:
            outer = cells[each.parent]
            assert outer.start <= each.start
            assert each.start + each.ms <= outer.start + outer.ms + 1e-9
            assert each.depth == outer.depth + 1


def test_what_nobody_can_see_is_left_out_without_moving_the_others():
    wide = 100.0
    for ms, seen in ((LEAST_SHARE * wide * 1.01, True), (LEAST_SHARE * wide * 0.9, False)):
        cells = icicle([stack([TRAIN, SLEEP], wide), stack([TRAIN, STEP], ms)])
        assert any(each.name == STEP for each in cells) is seen
        assert cells[0].ms == wide + ms


def test_endless_recursion_is_cut_off_and_keeps_its_time():
    cells = icicle([stack([f"f{number} (/u/a.py:1)" for number in range(5000)], 7.0)])
    assert max(each.depth for each in cells) == MAX_DEPTH - 1
    assert cells[-1].ms == 7.0


@pytest.mark.parametrize(
    ("frame", "short"),
    [
        ("step (/long/torch/adam.py:411)", "step (adam.py:411)"),
        ("step (C:\\x\\adam.py:4)", "step (adam.py:4)"),
        ("odd", "odd"),
    ],
)
def test_frames_are_shown_with_the_name_of_their_file(frame, short):
    assert short_frame(frame) == short


def test_the_page_draws_each_frame_with_its_time_and_side():
    assert flame_graph(reports.report()) == ""
    assert "What the host does" not in render_html(reports.report())
    sampled = replace(reports.report(), host_stacks=[stack([TRAIN, SLEEP], 30.0, 5.0, "host:sleep")])
    page = render_html(sampled)
    assert "What the host does" in page
    assert f"{SLEEP}: 30.0 ms per step, {EXPOSED}; mostly host sleeps".replace("<", "&lt;") in page
    assert f"{SLEEP}: 5.00 ms per step, {HIDDEN}" in page
    assert page.count('class="hidden-time"') == 3


def test_hostile_frames_are_text():
    hostile = replace(reports.report(), host_stacks=[stack([reports.HOSTILE] * 3, 30.0, 5.0)])
    page = render_html(hostile)
    assert "<img" not in page
    assert "\x00" not in page


def test_nothing_sampled_draws_nothing():
    assert icicle([]) == []
    assert icicle([stack([TRAIN], 0.0)]) == []
