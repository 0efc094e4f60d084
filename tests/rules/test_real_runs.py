"""What the rules say first of real captures, and of traces from the compiler."""

import pytest

from tpuprof.analyse import analyse_run


def first(path):
    return analyse_run(path).findings[0]


@pytest.mark.shared_traces
def test_host_offload_on_v6e_is_first_and_nearly_the_whole_step(shared_traces):
    report = analyse_run(shared_traces / "tpu_v6e_host_offload")
    finding = report.findings[0]
    assert (finding.rule, finding.status) == ("exposed-host-offload", "failed")
    assert report.steps.median_ms == pytest.approx(784, abs=1)
    assert finding.savings.low == pytest.approx(760, abs=3)
    assert finding.savings.high == pytest.approx(760, abs=3)
    assert {each.status for each in report.findings} == {"failed", "passed", "not_applicable", "unavailable"}


@pytest.mark.parametrize(
    ("sample", "rule"),
    [
        ("decoder_loop", "tracing-bound"),
        ("decoder_scan", "scan-cache-off"),
        ("device_to_host_sync", "device-to-host-sync"),
        ("input_starved", "input-starved"),
        ("recompile_shapes", "recompiles-shape"),
        ("predicted_decoder_offload", "exposed-host-offload"),
    ],
)
def test_first_finding_of_the_samples(samples, sample, rule):
    finding = first(samples / sample)
    assert (finding.rule, finding.status) == (rule, "failed")
    assert finding.savings is not None


def test_no_rule_breaks_on_a_sample(samples):
    for path in sorted(samples.iterdir()):
        if (path / "plugins").is_dir():
            errors = [each for each in analyse_run(path).findings if each.status == "error"]
            assert errors == [], path.name
