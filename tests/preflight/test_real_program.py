"""A program that ran on a real v6e: its step and its waits, predicted from its HLO and measured by the same capture."""

from collections import Counter

import pytest

from tpuprof.preflight.compiler import CompileOptions
from tpuprof.preflight.given import preflight_programs
from tpuprof.preflight.prediction import split_ms
from tpuprof.preflight.program_files import need_programs
from tpuprof.preflight.targets import parse_target

pytestmark = pytest.mark.shared_traces
# Measured, summed from the capture's protobuf over 100 steps on TPU:0 (see the PROVENANCE file beside it), ms a step.
STEP_MS = 784.126
WAITS_MS = (22_029 + 18_908 + 17_637 + 17_475) / 100
COMPUTE_MS = (2_367 + 365) / 100


def test_the_v6e_program_is_predicted_as_it_ran(shared_traces):
    path = shared_traces / "tpu_v6e_host_offload" / "host0.xplane.pb"
    found = preflight_programs(need_programs(path), [parse_target("v6e-4")], CompileOptions(), False, print)
    schedule = found.predictions[0].schedule
    assert schedule is not None
    split = split_ms(schedule)
    without_waits = sum(split.values()) - split["offload_exposed"]
    assert 1 / 1.3 < without_waits / COMPUTE_MS < 1.3
    assert 1 / 1.2 < split["offload_exposed"] / WAITS_MS < 1.2
    assert found.iterations()[0].step_ms == pytest.approx(STEP_MS, rel=0.2)


# A dump of Llama 3 8B on v6e-8 (four sequences of 8,192 tokens per chip, FSDP, collectives on SparseCores) states no
# estimates. Runs of this configuration are published with 7,500 to 7,768 tokens per second and chip.
PUBLISHED_S = (4 * 8192 / 7_768, 4 * 8192 / 7_500)


def test_a_dump_without_estimates_is_a_floor_with_all_its_collectives(shared_traces):
    pytest.importorskip("jaxlib")
    path = shared_traces / "tpu_train_hlo"
    found = preflight_programs(need_programs(path), [parse_target("v6e-8")], CompileOptions(), False, print)
    prediction = found.predictions[0]
    counts = Counter()
    for each, times in prediction.schedule.collectives.items():
        counts[each.kind] += times * each.bytes
    # Weights are gathered for the forward and again for the backward pass; each gradient is scattered once.
    parameters = 8.03e9 * 2
    assert counts["all-gather"] == pytest.approx(2 * parameters, rel=0.1)
    assert counts["reduce-scatter"] == pytest.approx(parameters, rel=0.1)
    seconds = prediction.schedule.duration / 1e12
    assert 0.6 * PUBLISHED_S[0] < seconds < PUBLISHED_S[0]
    assert any("the step takes longer" in each for each in prediction.warnings)
