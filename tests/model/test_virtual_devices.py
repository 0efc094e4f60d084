"""How many CPU devices a trace is of, where no run folder says it."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.model.device.virtual_devices import AS_ONE, UNKNOWN
from tpuprof.model.run import virtual_devices
from tpuprof.render.op_time import over

STEPS = 5
KEY = "all reduce RendezvousKey{run_id=RunId: 0, global_devices=[%s], num_local_participants=%d, op_id=1}"


def steps(devices, *, calls=1, key="", client=True):
    """Steps of 1 ms, each of which hands one program to so many devices, or as many programs to one."""
    trace = TraceBuilder()
    python, caller = trace.host().line("python"), trace.host().line("tf_pytorchxla/1")
    for step in range(STEPS):
        begin = 1000 * step
        python.event("train_step", begin, 1000, _r=1, step_num=step)
        python.event("SyncTensorsGraph", begin, 100)
        for call in range(calls if client else 0):
            caller.event("PjRtCpuExecutable::Execute", begin + 100 + 40 * call, 40)
        for device in range(devices):
            thread = trace.host().line(f"tf_XLAPjRtCpuClient/{device + 2}")
            handed = begin + 101 + 40 * min(device, calls - 1)
            if client:
                thread.event("PjRtCpuExecutable::ExecuteHelper", handed, 5)
            ran = {"hlo_module": "g", "program_id": 1}
            thread.event("ThunkExecutor::Execute (wait for completion)", begin + 300, 600)
            thread.event("dot.1", begin + 310, 300, hlo_op="dot.1", **ran)
            thread.event("all-reduce.1", begin + 620, 200, hlo_op="all-reduce.1", **ran)
            if key:
                thread.event("Rendezvous", begin + 630, 100)
                trace.host().set_stat(thread.message.events[-1].stats.add(), "name", key)
    return trace


@pytest.mark.parametrize(
    ("trace", "count"),
    [
        (steps(4), 4),
        (steps(1), 1),
        (steps(4, calls=4), 1),
        (steps(4, calls=4, key=KEY % ("0,1,2,3", 4)), 4),
        (steps(2, calls=2, key=KEY % ("0,1,2,3", 2)), 2),
        (steps(4, client=False, key=KEY % ("4,5,6,7", 4)), 4),
    ],
    ids=["one call", "one device", "a call each", "they meet", "the others are elsewhere", "no calls"],
)
def test_devices_are_counted_by_what_they_are_handed_and_by_where_they_meet(analyze, trace, count):
    report = analyze(trace)
    assert (report.environment["device_type"], report.environment["device_count"]) == ("CPU", count)
    assert UNKNOWN not in "".join(report.warnings)


def test_work_per_device_is_that_of_a_run_folder(analyze):
    alone = {row.name: row.self_ms_per_step for row in analyze(steps(4)).ops}
    assert alone["dot.1"] == pytest.approx(0.3)


def test_devices_that_nothing_counts_are_said_to_be_unknown(analyze):
    assert UNKNOWN in "".join(analyze(steps(4, client=False)).warnings)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_devices_that_are_one_in_all_figures_are_said_to_be(analyze, count):
    report = analyze(steps(count))
    assert (AS_ONE.format(count) in "".join(report.warnings)) is (count > 1)
    assert over(report) == ("per step, the CPU's devices as one" if count > 1 else "per step and device")


def test_a_loop_takes_as_long_as_any_device_is_in_it(analyze):
    """The first of four devices has 600 us to do per step, the others 60: the ops of the loop say 600, too."""
    trace = steps(4)
    for device in range(4):
        thread = trace.host().line(f"tf_XLAPjRtCpuClient/{device + 2}")
        for step in range(STEPS):
            begin, long = 1000 * step + 300, 600 if device == 0 else 60
            thread.event("while.1", begin, long, hlo_op="while.1", hlo_module="g", program_id=1)
            thread.event("tanh.1", begin + 1, long - 2, hlo_op="tanh.1", hlo_module="g", program_id=1)
    report = analyze(trace)
    (loop,) = report.loops
    assert loop.total_ms_per_step == pytest.approx(0.6)
    assert loop.occurrences == STEPS


def test_a_process_has_its_own_devices():
    assert virtual_devices({"device": {"global_count": 4, "local_count": 2}}) == 2
    assert virtual_devices({"device": {"global_count": 4}}) == 4
    assert virtual_devices({"device": None}) is None
