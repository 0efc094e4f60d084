"""Where each moment of a step goes, on traces built so that the answer is known."""

import numpy as np
import pytest

from tests.builders import TraceBuilder, op

TO_HOST = {"layout": ":S(5)", "opcode": "copy-done", "category": "copy-done"}


def torch_xla_step(trace, start, wall, *, tracing, number=0):
    """A marked step of torch_xla whose graph is cut `tracing` after its start; the host then waits."""
    python = trace.host().line("python")
    python.event("train_step", start, wall, _r=1, step_num=number, tpuprof="step")
    python.event("StepMarker", start + tracing - 20, wall - tracing + 20)
    python.event("RunPostOrder", start + tracing - 20, 10)
    python.event("TensorCollectionBarrier", start + tracing, wall - tracing)
    trace.sampled(start, wall, ops=int(wall))
    return python


def parts_us(host, step=0):
    return {name: column[step] / 1e6 for name, column in host.breakdown.parts.items() if column[step]}


def test_device_parts_by_what_runs(read):
    trace = TraceBuilder()
    torch_xla_step(trace, 0, 1000, tracing=100)
    device = trace.tpu(0)
    device.line("XLA Modules").event("g(1)", 100, 850)
    ops = device.line("XLA Ops")
    ops.event(start=100, duration=400, **op("fusion.1"))
    ops.event(start=500, duration=150, **op("all-gather-done.1", "all-gather-done"))
    ops.event(start=650, duration=200, **op("copy-done.1", **TO_HOST))
    ops.event(start=850, duration=50, **op("infeed.1", "infeed"))
    host = read(trace)
    assert parts_us(host) == {
        "tracing": 100,
        "compute": 400,
        "collective_exposed": 150,
        "offload_exposed": 200,
        "infeed_outfeed": 50,
        "other_device": 50,  # inside the program, in no op
        "dispatch": 50,  # the host waits for a device that idles
    }


def test_ops_inside_a_while_count_once(read):
    trace = TraceBuilder()
    torch_xla_step(trace, 0, 1000, tracing=200)
    device = trace.tpu(0)
    device.line("XLA Modules").event("g(1)", 200, 800)
    ops = device.line("XLA Ops")
    ops.event(start=200, duration=800, **op("while.1", "while"))
    ops.event(start=210, duration=300, **op("fusion.1"))
    ops.event(start=520, duration=400, **op("all-reduce.1", "all-reduce"))
    host = read(trace)
    assert parts_us(host) == {"tracing": 200, "compute": 300, "collective_exposed": 400, "other_device": 100}
    core = host.devices[0]
    own = {
        core.ops.name[o]: ps / 1e6 for o, ps in zip(core.op_events.op, core.op_events.self_ps, strict=True)
    }
    assert own == {"while.1": 100, "fusion.1": 300, "all-reduce.1": 400}


def idle_step(**thread_events):
    """A step of 1000 us without device work, with events on the training thread: name -> (start, duration)."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    python.event("train_step", 0, 1000, _r=1, step_num=0)
    python.event("StepMarker", 990, 10)
    for name, (start, duration) in thread_events.items():
        python.event(name.replace("__", "::"), start, duration)
    return trace.sampled(0, 1000, ops=1000)


@pytest.mark.parametrize(
    ("event", "part"),
    [
        ("XLAGraphExecutor::Compile", "compile"),
        ("PjRtComputationClient::TransferFromDevice", "device_to_host_sync"),
        ("tpuprof.host_read", "device_to_host_sync"),
        ("tpuprof.dataloader.next", "input_wait"),
        ("cpu_loader.next", "input_wait"),
        ("PjRtComputationClient::TransferToDevice", "host_to_device"),
        ("PjRtComputationClient::ExecuteReplicated", "dispatch"),
        ("DeviceBarrier", "dispatch"),
        ("aot_forward", "tracing"),
        ("something nobody knows", "tracing"),
        ("tpuprof.checkpoint", "user:checkpoint"),
        ("tpuprof.gc", "user:gc"),
        ("tpuprof.overhead", "user:overhead"),
    ],
)
def test_idle_parts_by_what_the_host_does(read, event, part):
    parts = parts_us(read(idle_step(**{event: (100, 300)})))
    expected = {"tracing": 700.0, part: 300.0} if part != "tracing" else {"tracing": 1000.0}
    assert parts == expected


def test_the_innermost_event_decides(read):
    trace = idle_step(cpu_loader=(0, 1))
    python = trace.host().line("python")
    python.event("tpuprof.dataloader.next", 100, 500)
    python.event("PjRtComputationClient::TransferToDevice", 200, 100)
    python.event("unknown helper inside the transfer", 220, 50)
    assert parts_us(read(trace)) == {"tracing": 500, "input_wait": 400, "host_to_device": 100}


def test_an_annotation_that_traces_next_to_nothing_goes_by_its_name(read):
    trace = idle_step()
    python = trace.host().line("python")
    python.event("augment [bold]data", 100, 300, tpuprof="annotation", traced_ops=0)
    python.event("forward", 500, 300, tpuprof="annotation", traced_ops=40)
    python.event("written by something older", 850, 50, tpuprof="annotation")
    assert parts_us(read(trace)) == {"tracing": 700, "user:augment [bold]data": 300}


@pytest.mark.parametrize(("ops", "part"), [(59, "user:x"), (60, "tracing")])
def test_both_sides_of_the_tracing_rate(read, ops, part):
    """0.2 traced ops a millisecond, in 300 ms: 60."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    python.event("train_step", 0, 1_000_000, _r=1, step_num=0)
    python.event("StepMarker", 999_000, 10)
    python.event("x", 100, 300_000, tpuprof="annotation", traced_ops=ops)
    assert parts_us(read(trace))[part] >= 300_000


def test_a_compile_in_any_thread_counts_as_compile(read):
    trace = idle_step()
    trace.host().line("pool").event("PjRtComputationClient::Compile", 200, 400)
    assert parts_us(read(trace)) == {"tracing": 600, "compile": 400}


def test_tracing_behind_device_work_is_hidden(read):
    trace = TraceBuilder()
    torch_xla_step(trace, 0, 1000, tracing=600)
    trace.tpu(0).line("XLA Modules").event("g(1)", 0, 250)
    trace.tpu(0).line("XLA Modules").event("g(1)", 600, 400)
    host = read(trace)
    assert parts_us(host) == {"other_device": 650, "tracing": 350}
    assert host.breakdown.tracing_hidden.tolist() == [250_000_000]


def test_parts_are_the_mean_of_devices_and_still_sum_exactly(read):
    trace = TraceBuilder()
    torch_xla_step(trace, 0, 1000, tracing=100)
    for index, busy in enumerate((300, 301, 307)):
        trace.tpu(index).line("XLA Modules").event("g(1)", 100, busy)
        trace.tpu(index).line("XLA Ops").event(start=100, duration=busy, **op("fusion.1"))
    host = read(trace)
    assert (sum(host.breakdown.parts.values()) == host.steps.wall_ps).all()
    assert parts_us(host)["compute"] == pytest.approx((300 + 301 + 307) / 3, abs=1e-5)


def test_parts_sum_exactly_whatever_the_trace(read):
    """Random overlapping, partly nonsensical events."""
    random = np.random.default_rng(7)
    trace = TraceBuilder()
    python = trace.host().line("python")
    names = ["StepMarker", "RunPostOrder", "XLAGraphExecutor::Compile", "DeviceBarrier", "x", "tpuprof.gc"]
    for number in range(6):
        python.event("train_step", number * 1000, 997, _r=1, step_num=number)
    for _ in range(300):
        python.event(names[random.integers(6)], random.integers(0, 6000), random.integers(0, 900))
        kind = ["fusion", "all-gather", "while", "infeed"][random.integers(4)]
        name = f"{kind}.{random.integers(5)}"
        for core in range(2):
            start, duration = random.integers(0, 6000), random.integers(0, 700)
            trace.tpu(core).line("XLA Ops").event(start=start, duration=duration, **op(name, kind))
    host = read(trace)
    assert (sum(host.breakdown.parts.values()) == host.steps.wall_ps).all()
    assert all((column >= 0).all() for column in host.breakdown.parts.values())


def cpu_op(line, name, start, duration, end, number, end_line=None):
    """An op launch on the CPU device and its `end:` twin."""
    line.event(name, start, duration, hlo_op=name, hlo_module="g", program_id=1, _p=number)
    (end_line or line).event(f"end: {name}", end, 0, _c=number)


def test_cpu_ops_run_until_their_twin_ends(read):
    trace = TraceBuilder()
    torch_xla_step(trace, 0, 1000, tracing=100)
    pool, other = trace.host().line("tf_XLAEigen/1"), trace.host().line("tf_XLAEigen/2")
    cpu_op(pool, "dot.1", 100, 5, 700, number=11, end_line=other)
    cpu_op(pool, "all-reduce.2", 700, 5, 900, number=12)
    pool.event(
        "add.3", 900, 20, hlo_op="add.3", hlo_module="g", program_id=1, _p=13
    )  # its twin was not recorded
    trace.host().line("tf_XLAPjRtCpuClient/3").event("ThunkExecutor::Execute (wait for completion)", 100, 850)
    host = read(trace)
    assert parts_us(host) == {
        "tracing": 100,
        "compute": 620,
        "collective_exposed": 200,
        "other_device": 30,
        "dispatch": 50,
    }
    assert host.devices[0].type == "CPU"
    assert set(host.devices[0].ops.program) == {"g(1)"}
