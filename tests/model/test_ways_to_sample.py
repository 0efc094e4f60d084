"""What adds samples to a recording from outside: `tpuprof.start_server` does so in torch_xla programs alone."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.analyze import analyze_run
from tpuprof.signals.steps import ways_to_sample


@pytest.mark.parametrize(
    ("framework", "server"), [("torch_xla", True), ("torch_tpu", False), ("jax", False), ("unknown", False)]
)
def test_a_server_is_named_where_it_samples(framework, server):
    assert ("start_server" in ways_to_sample(framework)) is server
    assert "tpuprof capture -- " in ways_to_sample(framework)


def test_the_reasons_of_a_torch_tpu_recording_name_no_server(tmp_path):
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(8):
        python.event("train_step", number * 1000, 1000, _r=1, step_num=number, tpuprof="step", origin="user")
        python.event("Optimizer.step#SGD.step", number * 1000 + 900, 50)
        python.event("TpuMallocAndMemcpyHtoD", number * 1000 + 100, 20)
    trace.write(tmp_path / "a.xplane.pb")
    reasons = [each.reason for each in analyze_run(tmp_path).findings]
    assert any("tpuprof capture -- " in each for each in reasons)
    assert not any("start_server" in each for each in reasons)
