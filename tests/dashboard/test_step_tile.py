"""The tile of the step time: where the host runs ahead of its device, the median is what a call takes."""

import json
from types import SimpleNamespace

import pytest
from tpuprof_dashboard.pages.overview import _step_time

from tpuprof.report.sections import RunSummary


def tile(median, against=None):
    report = SimpleNamespace(
        steps=SimpleNamespace(median_ms=median, p95_ms=2 * median, count=75, note=""),
        run_summary=RunSummary(1.0, 10.0),
    )
    return json.dumps(
        _step_time(SimpleNamespace(report=report, against=against)).to_plotly_json(), default=plain
    )


def plain(component):
    return component.to_plotly_json()


@pytest.mark.parametrize(
    ("median", "title", "note"),
    [
        (9.0, "Median step", "mean 10.0 ms, p95 18.0 ms, 75 steps"),
        (0.02, "Mean step", "the host runs ahead: half of the steps end within 20.0"),
    ],
)
def test_the_step_that_the_tile_shows(median, title, note):
    shown = tile(median)
    assert title in shown
    assert note in shown


def test_the_mean_is_compared_with_the_mean_of_the_base():
    against = SimpleNamespace(mean=SimpleNamespace(delta=1.5), median=SimpleNamespace(delta=0.25))
    assert "+1.50 ms against the base" in tile(0.02, against)
    assert "+250" in tile(9.0, against)
