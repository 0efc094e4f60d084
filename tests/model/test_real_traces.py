"""Real TPU traces read as their provenance says."""

import statistics

import pytest

from tpuprof.analysis.analyze import analyze_run
from tpuprof.decode.find import find
from tpuprof.model.run import build_run

pytestmark = pytest.mark.shared_traces


@pytest.fixture(scope="module")
def v6e(shared_traces):
    return analyze_run(shared_traces / "tpu_v6e_host_offload")


def test_v6e_steps_are_inferred_from_the_programs_period(v6e):
    assert v6e.steps.count == 100
    assert v6e.steps.method == "inferred from the period of XLA Modules"
    assert v6e.steps.confidence == "medium"
    assert v6e.steps.median_ms == pytest.approx(784.1, abs=0.1)


def test_v6e_verdict_names_host_offload(v6e):
    assert v6e.verdict.bound == "offload"
    assert v6e.verdict.share == pytest.approx(0.97, abs=0.005)
    assert "host memory" in v6e.verdict.sentence


def test_v6e_peaks_are_those_the_plane_states(v6e):
    assert v6e.environment["device_type"] == "TPU v6 Lite"
    assert v6e.environment["device_count"] == 4
    assert v6e.environment["peak_flops_per_s"] == 918e12
    assert v6e.environment["peak_hbm_bytes_per_s"] == pytest.approx(1637e9, rel=0.001)


def test_v6e_self_time_of_ops_on_one_core(shared_traces):
    run = build_run(find(shared_traces / "tpu_v6e_host_offload"))
    core = run.hosts[0].devices[0]
    own = dict.fromkeys(core.ops.name, 0)
    for op, ps in zip(core.op_events.op.tolist(), core.op_events.self_ps.tolist(), strict=True):
        own[core.ops.name[op]] += ps
    expected = {"copy-done.2": 22_029, "copy-done": 18_908, "copy-done.5": 17_637, "copy-done.4": 17_475}
    for name, ms in expected.items():
        assert own[name] / 1e9 == pytest.approx(ms, abs=1)
    assert sum(ps for name, ps in own.items() if name.startswith("broadcast_add")) / 1e9 == pytest.approx(
        2_367, abs=1
    )


def test_v6e_parts_sum_to_the_wall_time_of_each_step(v6e):
    for step in v6e.steps.per_step:
        assert sum(step.breakdown_ms.values()) == pytest.approx(step.wall_ms, abs=1e-6)
    assert statistics.median(step.wall_ms for step in v6e.steps.per_step) == v6e.steps.median_ms


def test_chrome_export_of_an_inference_run_is_read(shared_traces):
    report = analyze_run(shared_traces / "tpu_vllm_qwen3")
    assert report.environment["device_count"] == 2
    top = report.ops[0]
    assert top.category == "convolution fusion"
    assert top.bytes
    assert report.environment["peak_flops_per_s"] is None
