"""The tile of the step time: where the host runs ahead of its device, the median is what a call takes."""

import dataclasses
import json
from types import SimpleNamespace

import dash_mantine_components as dmc
import pytest
from tpuprof_dashboard.pages import steps
from tpuprof_dashboard.pages.overview import _facts, _part_tile, _stack, _step_time
from tpuprof_dashboard.pages.page import View

from tests.report import reports
from tpuprof.report.sections import RunSummary, Steadiness


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


def test_a_run_without_steps_is_not_told_per_step():
    """It read "3.88 s per step", "0 × unknown device" and "Step 0 took 4.18 s, step 0 4.18 s"."""
    dmc.add_figure_templates()
    made = reports.without_steps()
    none = {"device_type": None, "device_count": 0, "devices_in_trace": 0}
    report = dataclasses.replace(made, environment={**made.environment, **none})
    view = View({}, "run", report, None)
    part = next(name for name, each in report.breakdown.items() if each.share)
    shown = [
        json.dumps(each, default=plain) for each in (_part_tile(view, part), _facts(report), _stack(view))
    ]
    assert "in the whole capture" in shown[0]
    assert "no device plane" in shown[1]
    assert "each step" not in shown[2]
    assert "No steps" in json.dumps(steps.PAGE.render(view), default=plain)


@pytest.mark.parametrize(
    ("ratio", "said"), [(None, "three from before it that compiled nothing"), (1.5, "took 1.50 times")]
)
def test_what_capturing_costs_is_unknown_for_the_reason_that_is_true(ratio, said):
    """It said that there were no steps from before the capture, where all of them had compiled."""
    view = View({}, "run", reports.report(), None)
    assert said in json.dumps(steps._outliers(view, Steadiness(profiler_ratio=ratio)), default=plain)
