"""Ops that run on the CPU, and cuts that wait for the device, on traces built so that the answer is known."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.model.compile.recurrence import History
from tpuprof.model.host_run import read_host_run
from tpuprof.model.telemetry import StepRecord

LINE = {
    "frames": "train (/u/train.py:7)",
    "call": "torch.median(x)",
    "source": "/u/train.py:7",
    "user_call": "m",
}


def step(*, ours=True, wait=0):
    """A step of 100 ms: inputs fetched at 10 ms, result sent at 60 ms, a graph cut at 90 ms."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    python.event("train_step", 0, 100_000, _r=1, step_num=0)
    python.event("PjRtComputationClient::TransferFromDevice", 10_000, 2_000)
    python.event("PjRtComputationClient::TransferToDevice", 60_000, 1_000)
    if ours:
        python.event("tpuprof.graph_cut", 90_000, 10_000, source="/u/train.py:9", wait=wait)
    python.event("StepMarker", 90_000, 10_000)
    python.event("SyncTensorsGraph", 90_000, 10_000)
    python.event("SyncTensorsGraphInternal", 90_000, 4_000)
    python.event("ScheduleSyncTensorsGraph", 91_000, 3_000)
    return trace


def parts_ms(host):
    return {name: column[0] / 1e9 for name, column in host.breakdown.parts.items() if column[0]}


def test_from_the_read_of_the_inputs_to_the_upload_of_the_result(read):
    trace = step().sampled(0, 10_000, ops=100, stack=1, **{**LINE, "call": "x * 2"})
    trace.sampled(10_000, 80_000, ops=0, stack=2, **LINE)
    parts = parts_ms(read(trace))
    assert parts["aten_fallback"] == pytest.approx(51)
    assert parts["host:python"] == pytest.approx(29, abs=0.1)


@pytest.mark.parametrize(("after", "in_the_op"), [("torch.median(x)", 51), ("augment(x)", 2)])
def test_a_wait_without_a_line_is_the_ops_where_its_line_is_seen_again(read, after, in_the_op):
    """It slept, and nobody saw where: at neither end of the interval, as on a machine whose CPUs are taken."""
    trace = step().sampled(0, 10_000, ops=100, stack=1, asleep=False, **{**LINE, "call": "x * 2"})
    trace.sampled(10_000, 3_000, stack=2, asleep=False, **LINE)
    trace.sampled(13_000, 17_000, cpu=0, stack=2, asleep=False)
    other = {**LINE, "source": "/u/train.py:8"} if "augment" in after else LINE
    trace.sampled(30_000, 60_000, stack=3, asleep=False, **{**other, "call": after})
    assert parts_ms(read(trace))["aten_fallback"] == pytest.approx(in_the_op, abs=2)


def test_a_sleep_after_a_read_is_none(read):
    trace = step().sampled(0, 12_000, ops=100, stack=1, **LINE)
    sleep = {**LINE, "call": "time.sleep(1)"}
    trace.sampled(12_000, 78_000, ops=0, cpu=0, stack=2, **sleep)
    parts = parts_ms(read(trace))
    assert parts["aten_fallback"] == pytest.approx(2)
    assert parts["host:sleep"] > 70


def test_other_captures_do_not_tell_such_an_op_from_a_read(read):
    assert "aten_fallback" not in parts_ms(read(step(ours=False)))


def test_a_cut_that_was_asked_to_wait_is_named_with_its_line(read):
    host = read(step(wait=1))
    assert {(each.call, each.source) for each in host.host_reads if "sync" in each.call} == {
        ("sync(wait=True)", "/u/train.py:9")
    }


def test_a_cut_that_waits_for_the_program_before_reads_nothing(read):
    host = read(step())
    assert [each for each in host.host_reads if "sync" in each.call] == []
    assert parts_ms(host)["dispatch"] >= 6


def test_a_cut_that_was_asked_to_wait_does_so_while_it_hands_over_too(read):
    host = read(step(wait=1))
    blocked = [each.blocked_ps for each in host.host_reads if "sync" in each.call]
    assert sum(blocked) == 9_000_000_000


def backward(name="", **facts):
    """A step of 100 ms; autograd's thread is at one call from 20 to 80 ms, inside `backward()`."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    python.event("train_step", 0, 100_000, _r=1, step_num=0)
    python.event("tpuprof.graph_cut", 90_000, 10_000, source="/u/train.py:9")
    python.event("StepMarker", 90_000, 10_000)
    python.event("SyncTensorsGraph", 90_000, 10_000)
    trace.sampled(0, 90_000, cpu=1_000, ops=20, stack=1, **{**LINE, "call": "loss.backward()"})
    autograd = trace.host().line("pt_autograd_0")
    if name:
        autograd.event(name, 20_000, 60_000, **facts)
    else:
        autograd.event("PjRtComputationClient::TransferFromDevice", 20_000, 1_000)
        autograd.event("PjRtComputationClient::TransferToDevice", 79_000, 1_000)
    return trace


def test_a_read_in_a_gradient_hook_is_a_read(read):
    host = read(backward("tpuprof.host_read", call="item", source="/u/train.py:3"))
    assert parts_ms(host)["device_to_host_sync"] == pytest.approx(60)
    assert [(each.call, each.source) for each in host.host_reads] == [("item", "/u/train.py:3")]


def test_an_op_of_the_backward_pass_that_runs_on_the_host_is_one(read):
    assert parts_ms(read(backward()))["aten_fallback"] == pytest.approx(60)


def with_counters(tmp_path, trace, **counters):
    """The host of a trace whose captured step had these counters."""
    records = [StepRecord(0, 100_000_000, captured=True, counters=counters)]
    return read_host_run("host", trace.write(tmp_path / "host.xplane.pb"), history=History(records))


def test_a_transfer_is_a_read_where_counters_show_no_op_on_the_host(tmp_path):
    """A tensor that stands for a number is read by C++ code: Adam with a tensor as learning rate, say."""
    trace = step().sampled(0, 90_000, cpu=1_000, ops=2000, stack=1, **{**LINE, "call": "optimizer.step()"})
    host = with_counters(tmp_path, trace, **{"MarkStep": 1, "aten::_local_scalar_dense": 120})
    assert "aten_fallback" not in parts_ms(host)
    assert parts_ms(host)["device_to_host_sync"] == pytest.approx(2)
    assert parts_ms(host)["tracing"] > 80
    assert [(each.call, each.source, each.blocked_ps) for each in host.host_reads] == [
        ("an implicit read", "/u/train.py:7", 2_000_000_000)
    ]


def test_a_transfer_fetches_inputs_where_counters_show_an_op_on_the_host(tmp_path):
    host = with_counters(tmp_path, step(), **{"aten::_local_scalar_dense": 1, "aten::median": 1})
    assert parts_ms(host)["aten_fallback"] == pytest.approx(51)
    assert [each.call for each in host.host_reads] == ["PjRtComputationClient::TransferFromDevice"]


def test_a_transfer_without_a_sample_has_no_line(tmp_path):
    host = with_counters(tmp_path, step(), MarkStep=1)
    assert [(each.call, each.source) for each in host.host_reads] == [("an implicit read", "")]


def test_without_counters_nothing_tells_that_no_op_ran_on_the_host(tmp_path):
    assert parts_ms(with_counters(tmp_path, step()))["aten_fallback"] > 0
