"""Recompiles seen from the device alone: a new fingerprint under an old graph name."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.model.compile.compiles import COMPILE_FROM_PS
from tpuprof.units import PS_PER_US


def trace_of(pause_us, program="SyncTensorsGraph.77(9)"):
    """Six steps of 1 ms of one program, then a pause and another program, then the first again."""
    trace = TraceBuilder()
    begins = [1000 * i for i in range(6)]
    other = 6000 + pause_us
    later = [other + 1000 * (i + 1) for i in range(4)]
    trace.host().line("python").repeat("train", [*begins, 6000, *later], 1000, _r=1)
    modules = trace.tpu(0).line("XLA Modules")
    modules.repeat("SyncTensorsGraph.12(7)", begins, 1000)
    modules.event(program, other, 1000)
    modules.repeat("SyncTensorsGraph.12(7)", later, 1000)
    return trace


@pytest.mark.parametrize(("more", "count"), [(-1, 0), (1, 1)])
def test_a_new_fingerprint_after_a_pause(analyze, more, count):
    pause = COMPILE_FROM_PS / PS_PER_US + more
    rows = analyze(trace_of(pause)).compiles
    assert len(rows) == count
    if rows:
        assert rows[0].program == "SyncTensorsGraph.77(9)"
        assert rows[0].duration_ms == pytest.approx(pause / 1000)


def test_another_graph_is_no_recompile(analyze):
    assert analyze(trace_of(50_000, "Evaluate.3(9)")).compiles == []
