"""What of the host's work is of eager ops, where a function of the step is compiled."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.model.host.eager_share import COMPILED_IN_STEPS_SHARE

STEP, STEPS = 1000, 4


def trace_of(compiled=STEPS, cut="SyncLiveTensorsGraph", region=""):
    """Steps of 1000 us: 400 us of a function, in so many of them compiled, then 8 eager ops of 50 us, 20 us in cuts."""
    trace = TraceBuilder()
    python, behind = trace.host().line("python"), trace.host().line("pt_autograd_0")
    for number in range(STEPS):
        begin = STEP * number
        python.event("train", begin, STEP, _r=1)
        # What the host does there between its events is Python that traces ops.
        python.event("step", begin, 800, tpuprof="annotation", traced_ops=400)
        if number < compiled and region:
            python.event(region, begin + 300, 100)
        elif number < compiled:
            # `torch_xla.compile` makes a cut before the function, which has nothing to hand over.
            python.event("SyncLiveTensorsGraph", begin, 10)
            python.event(cut, begin + 300, 100)
            python.event("ScheduleSyncTensorsGraph", begin + 380, 10)
        for op in range(8):
            track = behind if op >= 4 else python
            track.event("SyncTensorsGraph", begin + 400 + 50 * op + 30, 20)
            track.event("ScheduleSyncTensorsGraph", begin + 400 + 50 * op + 40, 10)
    trace.tpu(0).line("XLA Modules").repeat("f(1)", [STEP * number + 800 for number in range(STEPS)], 200)
    trace.tpu(0).line("XLA Ops").repeat("f", [STEP * number + 800 for number in range(STEPS)], 200)
    return trace


def test_what_leads_to_a_cut_with_a_graph_is_the_compiled_functions(read):
    found = read(trace_of()).eager_ops
    # 390 of 800 us in which the device waits: the first cut hands nothing over.
    assert found.own_share == pytest.approx(0.5, abs=0.02)
    # 8 cuts of 20 us.
    assert found.cuts_share == pytest.approx(160 / 800, abs=0.02)


def test_a_call_of_what_dynamo_compiled_is_no_eager_op_either(read):
    assert read(trace_of(region="ExecuteComputationWithBarrier")).eager_ops.own_share < 0.7


@pytest.mark.parametrize(("compiled", "seen"), [(0, False), (1, False), (2, True)])
def test_half_of_the_steps_run_it(read, compiled, seen):
    assert COMPILED_IN_STEPS_SHARE == 0.5
    found = read(trace_of(compiled=compiled)).eager_ops
    assert (found.own_share is not None) == seen


def test_the_verdict_says_which_ops_run_alone(analyze):
    sentence = analyze(trace_of()).verdict.sentence
    assert "each op outside of the compiled function is a program of its own" in sentence
