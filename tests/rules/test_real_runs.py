"""What the rules say first of real captures, and of traces from the compiler."""

import pytest

from tests.rules.given import noting
from tpuprof.analysis import analyze
from tpuprof.analysis.analyze import analyze_run
from tpuprof.rules.registry import all_rules


def first(path):
    return analyze_run(path).findings[0]


@pytest.mark.shared_traces
def test_host_offload_on_v6e_is_first_and_priced_by_what_the_link_can_do(shared_traces):
    report = analyze_run(shared_traces / "tpu_v6e_host_offload")
    finding = report.findings[0]
    assert (finding.rule, finding.status) == ("exposed-host-offload", "failed")
    assert report.steps.median_ms == pytest.approx(784, abs=1)
    # 16.1 GB each way at 28.4 and 29.4 GB/s: the link needs 568 ms of the step's 784 with both directions at once, and
    # more than the step with one at a time, so nothing is certain to be gained.
    assert finding.title.endswith("the link needs at least 568 ms per step for these bytes")
    assert (finding.savings.low, finding.savings.high) == (0.0, pytest.approx(784.3 - 567.5, abs=2))
    others = {each.rule: each for each in report.findings}
    assert finding.shares_saving_with == ["offload-not-effective"]
    assert others["offload-not-effective"].shares_saving_with == ["exposed-host-offload"]
    unneeded = others["offload-unneeded"]
    assert unneeded.status == "unavailable"
    assert "20.0 GiB at the peak and 15.0 GiB on the host make 35.0 GiB of 31.2 GiB" in unneeded.reason
    assert {each.status for each in report.findings} == {"failed", "passed", "not_applicable", "unavailable"}


@pytest.mark.parametrize(
    ("sample", "rule"),
    [
        ("decoder_loop", "tracing-bound"),
        ("decoder_scan", "scan-cache-off"),
        ("device_to_host_sync", "device-to-host-sync"),
        ("input_starved", "input-starved"),
        ("recompile_shapes", "recompiles-shape"),
        # Its HBM has room for all that it offloads.
        ("predicted_decoder_offload", "offload-unneeded"),
    ],
)
def test_first_finding_of_the_samples(samples, sample, rule):
    finding = first(samples / sample)
    assert (finding.rule, finding.status) == (rule, "failed")
    assert finding.savings is not None


def test_no_rule_breaks_on_a_sample_or_reads_what_it_does_not_declare(samples, monkeypatch):
    asked, rules = {}, all_rules()
    monkeypatch.setattr(analyze, "all_rules", lambda: tuple(noting(rule, asked) for rule in rules))
    for path in sorted(samples.iterdir()):
        if (path / "plugins").is_dir():
            errors = [each for each in analyze_run(path).findings if each.status == "error"]
            assert errors == [], path.name
    assert set(asked) == {rule.id for rule in rules}
    assert {
        rule.id: asked[rule.id] - set(rule.reads) for rule in rules if asked[rule.id] - set(rule.reads)
    } == {}
