"""Devices that compute the same: what the verdict of a busy device says of them."""

import pytest

from tests.builders import TraceBuilder
from tests.model.test_same_work import serialized
from tests.rules.given import op
from tpuprof.analysis.sections.repeated_words import REPEATED_FROM_SHARE, said_of_repeated
from tpuprof.decode import hlo_pb2


def computes(ms, **more):
    return op(ms=ms, self_ms_per_step=ms, **more)


@pytest.mark.parametrize(("more", "said"), [(0.01, True), (-0.01, False)])
def test_the_verdict_says_how_much_of_the_time_devices_compute_the_same(more, said):
    """Four devices computed a whole batch each: "the host keeps up" was all of the verdict."""
    share = REPEATED_FROM_SHARE / (1 - 1 / 4) + more
    rows = [computes(100 * share, repeated=4), computes(100 * (1 - share), repeated=0)]
    text = said_of_repeated(rows)
    shown = round(100 * share)
    expected = f" Each of 4 devices computes the same in ops that take {shown} % of its time." if said else ""
    assert text == expected


@pytest.mark.parametrize("rows", [[], [computes(100.0)], [computes(100.0, repeated=4, kind="collective")]])
def test_nothing_is_said_where_nothing_is_known(rows):
    assert said_of_repeated(rows) == ""


@pytest.mark.parametrize(("split", "said"), [(4, True), (1, False)])
def test_four_devices_of_this_machine_are_one_in_a_trace_and_several_all_the_same(analyze, split, said):
    trace = TraceBuilder()
    python, calls = trace.host().line("python"), trace.host().line("tf_pytorchxla/1")
    threads = [trace.host().line(f"tf_XLAPjRtCpuClient/{device + 2}") for device in range(4)]
    for step in range(5):
        begin = 1000 * step
        python.event("train_step", begin, 1000, _r=1, step_num=step)
        calls.event("PjRtCpuExecutable::Execute", begin, 20)
        for thread in threads:
            thread.event("PjRtCpuExecutable::ExecuteHelper", begin + 1, 5)
            ran = {"hlo_module": "step", "program_id": 1}
            thread.event("ThunkExecutor::Execute (wait for completion)", begin + 20, 970)
            thread.event("h", begin + 20, 960, hlo_op="h", **ran)
    module = hlo_pb2.HloModuleProto.FromString(serialized(split))
    embedded = hlo_pb2.HloProto(hlo_module=module).SerializeToString()
    trace.plane("/host:metadata").name_id("step(1)", "", {"hlo_proto": embedded})
    sentence = analyze(trace).verdict.sentence
    assert sentence.startswith("Device-bound: ")
    assert ("Each of 4 devices computes the same in ops that take 100 % of its time." in sentence) is said
