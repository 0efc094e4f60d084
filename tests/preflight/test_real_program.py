"""A program that ran on a real v6e: its step and its waits, predicted from its HLO and measured by the same capture."""

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
