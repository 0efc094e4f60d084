"""libtpu's monitoring as it documents itself; no TPU is here, so a module of ours answers in its place."""

import sys
from types import SimpleNamespace

import pytest

from tpuprof.watch import tpu_metrics
from tpuprof.watch.tpu_metrics import LOOK_SECONDS, MOST_SECONDS, NAMES, TpuMetrics

CHIPS = {
    "duty_cycle_pct": ["80.00", "60.00"],
    "tensorcore_util": ["30.0", "50.0"],
    "hbm_capacity_usage": ["8000000000", "4000000000"],
    "hbm_capacity_total": ["16000000000", "16000000000"],
}


@pytest.fixture
def libtpu(monkeypatch):
    """The answers of the module, which a test may change."""
    answers, asked = dict(CHIPS), []

    def get_metric(name):
        asked.append(name)
        return SimpleNamespace(data=lambda: answers[name])

    monkeypatch.setitem(sys.modules, tpu_metrics.MODULE, SimpleNamespace(get_metric=get_metric))
    return SimpleNamespace(answers=answers, asked=asked)


def begun():
    chips = TpuMetrics()
    chips.begin("TPU")
    return chips


def test_shares_are_means_over_chips_and_memory_is_of_all(libtpu):
    chips = begun()
    chips.look(0.0)
    assert chips.values == {
        "tpu_duty_cycle": 70.0,
        "tpu_tensorcore_utilization": 40.0,
        "hbm_utilization": 37.5,
    }
    assert chips.unavailable == {}
    assert chips.bytes_in_use == 8_000_000_000


def test_chips_are_asked_every_few_seconds(libtpu):
    chips = begun()
    chips.look(0.0)
    once = len(libtpu.asked)
    chips.look(LOOK_SECONDS - 0.1)
    assert len(libtpu.asked) == once
    chips.look(LOOK_SECONDS)
    assert len(libtpu.asked) == 2 * once


def test_what_the_chips_do_not_answer_is_unavailable_and_says_why(libtpu):
    chips = begun()
    chips.look(0.0)
    libtpu.answers |= {"duty_cycle_pct": [], "tensorcore_util": ["150.0"], "hbm_capacity_total": ["no"]}
    chips.look(LOOK_SECONDS)
    assert chips.values == {}
    assert chips.unavailable["tpu_duty_cycle"] == "libtpu answers without values"
    assert "150 %" in chips.unavailable["tpu_tensorcore_utilization"]
    assert "ValueError" in chips.unavailable["hbm_utilization"]


def test_a_slow_reading_is_the_last(libtpu, monkeypatch):
    chips, clock = begun(), iter([0.0, MOST_SECONDS + 0.01])
    monkeypatch.setattr(tpu_metrics.time, "perf_counter", lambda: next(clock))
    chips.look(0.0)
    assert chips.values == {}
    assert "could slow training down" in chips.unavailable["tpu_duty_cycle"]
    asked = len(libtpu.asked)
    chips.look(LOOK_SECONDS)
    assert len(libtpu.asked) == asked


@pytest.mark.parametrize("device", ["CPU", "CUDA", None])
def test_on_other_devices_nothing_is_imported(monkeypatch, device):
    monkeypatch.setattr(tpu_metrics.importlib, "import_module", pytest.fail)
    chips = TpuMetrics()
    chips.begin(device)
    chips.look(0.0)
    assert chips.values == {}
    assert set(chips.unavailable) == set(NAMES)
    assert f"the device is {device or 'unknown'}" in chips.unavailable["tpu_duty_cycle"]


def test_a_libtpu_without_monitoring_is_unavailable(monkeypatch):
    monkeypatch.setitem(sys.modules, tpu_metrics.MODULE, None)
    assert "cannot be imported" in begun().unavailable["hbm_utilization"]
