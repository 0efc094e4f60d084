"""Events at moments that no capture has: cut, said, and no sum of them overflows."""

import pytest

from tests.builders import TraceBuilder, op
from tpuprof.analysis.analyze import analyze_run


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("where", ["offset_ps", "duration_ps"])
@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1, 11 * 86_400 * 10**12])
def test_an_event_outside_of_any_capture_is_cut_and_said(tmp_path, where, value):
    trace = TraceBuilder()
    for number in range(6):
        trace.host().line("python").event("run", 1000 * number, 900)
        trace.tpu(0).line("XLA Modules").event("step(1)", 1000 * number, 900)
        trace.tpu(0).line("XLA Ops").event(start=1000 * number, duration=900, **op("fusion.1"))
    line = next(each for plane in trace.space.planes for each in plane.lines if each.name == b"XLA Modules")
    setattr(line.events[2], where, value)
    report = analyze_run(trace.write(tmp_path / "h.xplane.pb"))
    said = (
        "negative durations"
        if (where, value < 0) == ("duration_ps", True)
        else "more than ten days and are cut"
    )
    assert any("/device:TPU:0: inconsistent: 1 events" in each and said in each for each in report.warnings)
