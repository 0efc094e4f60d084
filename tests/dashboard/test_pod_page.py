"""A pod of 1,024 hosts and 1,000 steps on the page of hosts, in a real Chromium."""

from dataclasses import replace

import numpy as np
import pytest

from tests.dashboard.conftest import HOSTILE, assert_accessible, open_page, screenshot, served, training_trace
from tests.pod.pods import MS, pod
from tests.pod.test_findings import SLEEPS, trace
from tpuprof.analysis.analyze import analyze_run
from tpuprof.pod.analyze import analyze_pod
from tpuprof.pod.heat_map import heat_map as cells_of
from tpuprof.pod.lateness import find_lateness
from tpuprof.report.as_json import to_json
from tpuprof.report.pod import HeatMap, HostGroupRow, Pod, StragglerRow

pytest.importorskip("dash")
from tpuprof_dashboard.figures.heat_map import heat_map


def pod_of_1024():
    compared = find_lateness(pod(np.random.default_rng(0), 1024, 1000, 1, {700: 20 * MS}))
    late = compared[0].stragglers[0]
    return Pod(
        hosts=1024,
        analyzed=1024,
        shown="h0000",
        groups=[HostGroupRow(1023, ["h0000"], "device", "step", f"Device-bound {HOSTILE[1]}", 50.0, {})],
        stragglers=[StragglerRow(late.host, late.method, late.lag_ps / 1e9, late.share, late.steps)],
        heat_map=cells_of(compared),
    )


def test_the_page_of_a_large_pod_opens_and_names_the_straggler(tab, tmp_path):
    from tpuprof_dashboard.store import Store

    report = replace(analyze_run(training_trace().write(tmp_path / "x.xplane.pb")), pod=pod_of_1024())
    saved = tmp_path / "pod.json"
    saved.write_text(to_json(report), "utf-8")
    assert saved.stat().st_size < 2_000_000
    with served(Store([saved])) as url:
        open_page(tab, url, f"?page=hosts&run={saved}")
        text = tab.inner_text("#page")
        assert "Hosts by steps" in text
        assert "h0700" in text
        assert tab.locator("#hosts-by-steps .heatmaplayer image").count() == 1
        screenshot(tab, "hosts-pod")
        assert_accessible(tab)


def test_findings_and_lines_name_their_hosts(tab, tmp_path):
    from tpuprof_dashboard.store import Store

    folder = tmp_path / "plugins" / "profile" / "x"
    folder.mkdir(parents=True)
    for name in SLEEPS:
        trace(name).write(folder / f"{name}.xplane.pb")
    saved = tmp_path / "pod.json"
    saved.write_text(to_json(analyze_pod(tmp_path)), "utf-8")
    with served(Store([saved])) as url:
        open_page(tab, url, f"?page=hosts&run={saved}")
        text = tab.inner_text("#page")
        assert "Findings by host" in text
        assert "w17, w203, w30 of 8 hosts" in text
        assert_accessible(tab)
        open_page(tab, url, f"?page=tracing&run={saved}")
        text = tab.inner_text("#page")
        assert "means over the steps of all 8 hosts" in text
        assert "Lines by host" in text
        assert "/home/u/log.py:5" in text
        assert_accessible(tab)
        open_page(tab, url, f"?page=findings&run={saved}&open=host-blocked")
        text = tab.inner_text("#page")
        assert "(on 3 of 8 hosts)" in text
        assert (
            "Only on w17, w203, w30 of 8 hosts: /home/u/data.py:12 on w17, w203; /home/u/log.py:5 on w30."
            in text
        )
        assert "Price and evidence are those of w30" in text


def test_names_are_text_and_one_long_step_does_not_hide_the_others():
    found = HeatMap([HOSTILE[1], "b"], [0, 1], 1, [[1.0, 2.0], [0.5, 60_000.0]])
    figure = heat_map(found)
    assert "<script" not in str(figure.data[0].y[0])
    wide = heat_map(HeatMap(["a", "b"], list(range(400)), 1, [[1.0] * 400, [2.0] * 399 + [60_000.0]]))
    assert wide.data[0].zmax < 60_000
