"""Findings on what the device waits for, where few steps hold nearly all of it."""

import pytest

from tests.builders import TraceBuilder, op
from tpuprof.analysis.analyze import analyze_run


@pytest.mark.parametrize(("held", "confidence"), [((4,), "low"), (range(12), "medium")])
@pytest.mark.parametrize("rule", ["exposed-collectives", "exposed-host-offload"])
def test_waits_of_the_device_in_one_step_are_of_no_other(tmp_path, held, confidence, rule):
    """ "The device waits 38 % of each step for communication" was said of one step of 20, with medium confidence."""
    words = op("all-reduce.1", "all-reduce") if "coll" in rule else op("copy-done.1", "copy-done", "1:S(5)")
    trace, begin = TraceBuilder(), 0
    for number in range(12):
        wait = 900 * 12 // len(held) if number in held else 0
        trace.host().line("python").event("train", begin, 1000 + wait, _r=1, step_num=number)
        trace.tpu(0).line("XLA Modules").event("f(1)", begin, 1000 + wait)
        trace.tpu(0).line("XLA Ops").event(**op("fusion.1"), start=begin, duration=1000)
        if wait:
            trace.tpu(0).line("XLA Ops").event(**words, start=begin + 1000, duration=wait)
        begin += 1000 + wait
    report = analyze_run(trace.write(tmp_path / "host.xplane.pb"))
    found = next(each for each in report.findings if each.rule == rule)
    assert found.status == "failed"
    assert ("of the steps' time (nearly all of it in 1 of 12 steps)" in found.title) is (confidence == "low")
    assert ("of each step" in found.title) is (confidence == "medium")
    if found.savings is not None:
        assert found.confidence == confidence
        assert (found.savings.low == 0) is (confidence == "low")
