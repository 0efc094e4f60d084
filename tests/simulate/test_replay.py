"""The simulator: replays what was measured, and what a step takes without a cause."""

from dataclasses import replace

import numpy as np
import pytest

from tests.builders import TraceBuilder, op
from tpuprof.decode.find import find
from tpuprof.model.run import build_run
from tpuprof.simulate import clock
from tpuprof.simulate.change import Change
from tpuprof.simulate.replay import FIT_WITHIN, fit
from tpuprof.simulate.timeline import BEGINS_WITHIN_PS, _begun_at_once, read_timeline

STEPS = 6


def simulated(trace, tmp_path):
    host = build_run(find(trace.write(tmp_path / "host.xplane.pb"))).hosts[0]
    return fit(read_timeline(host.steps, host.devices, host.activity, host.named_events))


def pipelined(host_us, device_us, *, read=False, loader_us=0, compile_us=0):
    """A run as torch_xla makes it: the host traces a step while the device runs the one before."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    modules, ops = trace.tpu(0).line("XLA Modules"), trace.tpu(0).line("XLA Ops")
    now = free = 0
    starts, ends = [], []
    for number in range(STEPS):
        starts.append(now)
        if loader_us:
            python.event("tpuprof.dataloader.next", now, loader_us)
        now += loader_us + host_us
        if compile_us and number == 3:
            python.event("XLAGraphExecutor::Compile", now, compile_us, graph_hash="h")
            now += compile_us
        if number >= 2 and ends[-1] > now:
            # One step ahead of the device, no more.
            python.event("TensorCollectionBarrier", now, ends[-1] - now)
            now = ends[-1]
        python.event("PjRtComputationClient::ExecuteComputation", now, 1)
        begun = max(now + 1, free)
        free = begun + device_us
        modules.event(f"step({number})", begun, device_us)
        ops.event(start=begun, duration=device_us, **op("fusion.1"))
        ends.append(free)
        now += 1
        if read:
            python.event("tpuprof.host_read", now, free - now, call="item")
            now = free
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < STEPS else now
        python.event("train_step", start, end - start, _r=1, step_num=number)
    # What no event explains is tracing, by a sample that counted ops all the time.
    return trace.sampled(0, now, ops=now)


@pytest.mark.parametrize(("host", "device"), [(1000, 4000), (4000, 1000), (2000, 2000)])
@pytest.mark.parametrize("read", [False, True])
def test_reproduces_the_measured_step_time(tmp_path, host, device, read):
    simulator = simulated(pipelined(host, device, read=read), tmp_path)
    if not read and device > host:
        # The window of a run that is ahead of its device starts with an empty queue: steps in it are shorter.
        assert simulator.base_ms >= simulator.measured_ms
    else:
        assert simulator.error < FIT_WITHIN


@pytest.mark.parametrize(("host", "device"), [(1000, 4000), (4000, 1000), (2000, 2000)])
def test_without_the_read_the_longer_of_host_and_device_is_left(tmp_path, host, device):
    simulator = simulated(pipelined(host, device, read=True), tmp_path)
    assert simulator.measured_ms == pytest.approx((host + device) / 1000, rel=0.01)
    assert simulator.step_ms(Change(unblock=True)) == pytest.approx(max(host, device) / 1000, rel=0.02)


def test_without_waiting_for_input(tmp_path):
    simulator = simulated(pipelined(1000, 2000, loader_us=5000), tmp_path)
    assert simulator.step_ms(Change(host={"input_wait": 0.0})) == pytest.approx(2.0, rel=0.05)


def test_without_compiles_the_step_is_what_the_others_are(tmp_path):
    simulator = simulated(pipelined(4000, 1000, compile_us=60_000), tmp_path)
    assert simulator.measured_ms == pytest.approx(14, rel=0.02)
    assert simulator.step_ms(Change(host={"compile": 0.0})) == pytest.approx(4.0, rel=0.02)


def test_a_program_compiled_inside_the_call_that_runs_it_begins_earlier_without_the_compile(tmp_path):
    trace = TraceBuilder()
    python, run = trace.host().line("python"), trace.host().line("tf_XLAEigen/1")
    for number in range(STEPS):
        at = number * 10_000
        python.event("train", at, 10_000, _r=1, step_num=number)
        python.event("PjitFunction(step)", at + 100, 9700)
        python.event("backend_compile_and_load", at + 500, 9000)
        run.event("ThunkExecutor::Execute", at + 9600, 300)
    simulator = simulated(trace, tmp_path)
    assert simulator.measured_ms == pytest.approx(10, rel=0.02)
    assert simulator.step_ms(Change(host={"compile": 0.0})) == pytest.approx(1.0, rel=0.1)


def test_what_another_thread_hands_over_while_the_training_thread_traces_is_handed_over(tmp_path):
    """In the first half of the steps it waits for the worker that hands their program over."""
    trace = TraceBuilder()
    python, worker = trace.host().line("python"), trace.host().line("tf_pytorchxla/1")
    modules, ops = trace.tpu(0).line("XLA Modules"), trace.tpu(0).line("XLA Ops")
    now = 0
    for number in range(STEPS):
        begun = now + 4000
        reads = begun if number < STEPS // 2 else begun + 300
        worker.event("PjRtComputationClient::ExecuteComputation", begun, 100)
        modules.event(f"step({number})", begun, 11_000)
        ops.event(start=begun, duration=11_000, **op("fusion.1"))
        python.event("tpuprof.host_read", reads, begun + 11_000 - reads, call="item")
        python.event("train_step", now, 15_000, _r=1, step_num=number)
        now += 15_000
    found = simulated(trace.sampled(0, now, ops=now), tmp_path)
    assert found.in_flight == 2
    assert found.base_ms == pytest.approx(15.0, rel=0.001)


def test_a_program_that_the_training_thread_runs_itself_keeps_it_until_it_ends(tmp_path):
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(STEPS):
        at = number * 10_000
        python.event("train", at, 10_000, _r=1, step_num=number)
        python.event("PjitFunction(step)", at + 100, 9800)
        python.event("ThunkExecutor::Execute", at + 200, 9600)
        python.event("pure_callback.1", at + 300, 8000, hlo_op="pure_callback.1", hlo_module="jit_step")
        # What the callback's Python does there is no work of the host's own.
        python.event("DevicePutWithSharding", at + 500, 100)
        python.event("dot.2", at + 8400, 1000, hlo_op="dot.2", hlo_module="jit_step")
    simulator = simulated(trace, tmp_path)
    assert simulator.error < FIT_WITHIN
    assert simulator.step_ms(Change(device={"compute": 0.0})) == pytest.approx(1.0, abs=0.2)


def test_a_program_that_the_thread_runs_ends_with_it_though_an_op_seems_to_last(tmp_path):
    """A thread of the pool that a callback keeps may end an op of the program only in the next one."""
    trace = TraceBuilder()
    python, pool = trace.host().line("python"), trace.host().line("tf_XLAEigen/1")
    for number in range(STEPS):
        at = number * 10_000
        python.event("train", at, 10_000, _r=1, step_num=number)
        python.event("PjitFunction(step)", at + 100, 9800)
        python.event("ThunkExecutor::Execute (wait for completion)", at + 200, 9600)
        python.event("dot.2", at + 250, 9000, hlo_op="dot.2", hlo_module="jit_step")
        pool.event("reduce", at + 9300, 1000, hlo_op="reduce", hlo_module="jit_step")
    simulator = simulated(trace, tmp_path)
    assert simulator.error < FIT_WITHIN
    assert simulator.step_ms(Change(device={"compute": 0.0})) == pytest.approx(0.4, abs=0.1)


def test_one_program_has_no_time_from_a_launch_to_a_start(tmp_path):
    """Four programs that each begin 500 us after their call: as parts of one, three of them begin as the last ends."""
    trace = TraceBuilder()
    python, modules = trace.host().line("python"), trace.tpu(0).line("XLA Modules")
    ops = trace.tpu(0).line("XLA Ops")
    for number in range(STEPS):
        python.event("train", number * 10_000, 10_000, _r=1, step_num=number)
        for call in range(4):
            at = number * 10_000 + call * 2_000
            python.event("PjitFunction(f)", at, 400)
            modules.event(f"jit_f({number})", at + 500, 1_000)
            ops.event(start=at + 500, duration=1_000, **op("fusion.1"))
            python.event("tpuprof.host_read", at + 400, 1_200, call="item")
    simulator = simulated(trace, tmp_path)
    called = Change(host={"dispatch": 0.0})
    apart, as_one = simulator.step_ms(called), simulator.step_ms(replace(called, as_one=True))
    assert as_one == pytest.approx(apart - 4 * 0.5, abs=0.5)


def test_less_tracing_helps_until_the_device_is_what_takes_longest(tmp_path):
    simulator = simulated(pipelined(4000, 1000), tmp_path)
    assert simulator.step_ms(Change(host={"tracing": 0.5})) == pytest.approx(2.0, rel=0.02)
    assert simulator.step_ms(Change(host={"tracing": 0.0})) == pytest.approx(1.0, rel=0.1)


def test_only_some_steps(tmp_path):
    simulator = simulated(pipelined(4000, 1000, compile_us=60_000), tmp_path)
    even = frozenset(range(STEPS)) - {3}
    assert simulator.step_ms(Change(steps=even)) == pytest.approx(4.0, rel=0.05)


def test_device_parts_of_a_trace_without_host_steps(tmp_path):
    trace = TraceBuilder()
    for number in range(5):
        at = number * 1000
        trace.tpu(0).line("XLA Modules").event("step(1)", at, 900)
        ops = trace.tpu(0).line("XLA Ops")
        ops.event(start=at, duration=300, **op("fusion.1"))
        ops.event(start=at + 300, duration=600, **op("copy-done.1", "copy-done", layout=":S(5)"))
    simulator = simulated(trace, tmp_path)
    assert simulator.error < 1e-6
    without = simulator.step_ms(Change(device={"offload_exposed": 0.0}))
    assert simulator.measured_ms - without == pytest.approx(0.6, rel=1e-6)


def test_a_change_never_makes_a_replay_slower(tmp_path):
    simulator = simulated(pipelined(2000, 3000, read=True, loader_us=500, compile_us=8000), tmp_path)
    for change in (
        Change(unblock=True),
        Change(host={"tracing": 0.3}),
        Change(host={"input_wait": 0.0, "compile": 0.0}),
        Change(device={"compute": 0.5}),
        Change(join_cuts=0.0),
    ):
        assert simulator.step_ms(change) <= simulator.measured_ms * 1.001


def test_both_changes_leave_the_less_of_each():
    both = Change(host={"tracing": 0.5}, join_cuts=0.5).and_also(Change(host={"tracing": 0.2}, unblock=True))
    assert both == Change(host={"tracing": 0.2}, unblock=True, join_cuts=0.5)
    assert Change(let_go=True).and_also(Change(as_one=True)) == Change(let_go=True, as_one=True)


@pytest.mark.skipif(clock._replay is None, reason="the native modules are not built")
@pytest.mark.parametrize("sample", ["device_to_host_sync", "recompile_shapes", "decoder_loop"])
def test_the_compiled_replay_is_the_one_in_python(samples, sample, monkeypatch):
    host = build_run(find(samples / sample)).hosts[0]
    changes = [
        Change(),
        Change(unblock=True),
        Change(host={"tracing": 0.3}, device={"compute": 0.5}),
        Change(join_cuts=0.25),
        Change(steps=frozenset([1, 3])),
        Change(steps=frozenset()),
    ]

    def replayed():
        simulator = fit(read_timeline(host.steps, host.devices, host.activity, host.named_events))
        return [simulator.in_flight, simulator.base_ms, *(simulator.step_ms(each) for each in changes)]

    compiled = replayed()
    monkeypatch.setattr(clock, "_replay", None)
    assert replayed() == compiled


@pytest.mark.skipif(clock._replay is None, reason="the native modules are not built")
def test_columns_of_unequal_length_are_refused():
    whole, real = np.zeros(2, np.int64), np.zeros(2)
    for row in range(5):
        pieces = [whole, whole, real, whole, whole]
        pieces[row] = pieces[row][:1]
        with pytest.raises(ValueError, match="unequal"):
            clock.play(clock.Pieces(*pieces), clock.Queue(whole, whole, real, 2), False, 1)


def behind_one_call(pause_us):
    """Steps of 10 ms of JAX: ten programs run with pauses while the host waits in the call that hands over the last."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    modules, ops = trace.tpu(0).line("XLA Modules"), trace.tpu(0).line("XLA Ops")
    for number in range(STEPS):
        now = number * 10_000
        python.event("train", now, 10_000, _r=1, step_num=number)
        python.event("PjitFunction(update)", now + 100, 9_800)
        for program in range(10):
            begun, length = now + 200 + program * 960, 960 - pause_us
            modules.event(f"jit_update({program})", begun, length)
            ops.event(start=begun, duration=length, **op("fusion.1"))
    return trace


@pytest.mark.parametrize(("pause_us", "keeps_gaps"), [(0, False), (300, True)])
def test_pauses_between_programs_that_were_handed_over_before_are_replayed(tmp_path, pause_us, keeps_gaps):
    """Small jitted functions had no price: "the replay gives 4.88 ms per step where 5.57 ms were measured"."""
    simulator = simulated(behind_one_call(pause_us), tmp_path)
    assert simulator.measured_ms == pytest.approx(10.0)
    assert (simulator.keeps_gaps, simulator.base_ms) == (keeps_gaps, pytest.approx(10.0, rel=FIT_WITHIN))
    # The pauses are the runtime's: they stay where the device computes less.
    left = 10 * pause_us / 1e3
    assert simulator.step_ms(Change(device={"compute": 0.0})) >= 0.9 * left


def test_work_from_before_the_steps_does_not_wait_for_its_launch_in_each_round(tmp_path):
    """A program that called Python in each layer had no price: "the replay gives 77.2 ms where 70.4 were measured"."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    modules, ops = trace.tpu(0).line("XLA Modules"), trace.tpu(0).line("XLA Ops")
    work = [(199_000, 1_400), *((200_000 + 10_000 * number + 500, 9_000) for number in range(STEPS))]
    python.event("PjitFunction(update)", 20_000, 100)
    for number in range(STEPS):
        now = 200_000 + 10_000 * number
        python.event("train", now, 10_000, _r=1, step_num=number)
        python.event("PjitFunction(update)", now + 10, 100)
        python.event("np.asarray(jax.Array)", now + 200, 9_500)
    for number, (begun, length) in enumerate(work):
        modules.event(f"jit_update({number})", begun, length)
        ops.event(start=begun, duration=length, **op("fusion.1"))
    simulator = simulated(trace, tmp_path)
    assert simulator.base_ms == pytest.approx(simulator.measured_ms, rel=FIT_WITHIN)


def on_the_cpu_client(late_us):
    """A device that works `late_us` behind each graph cut, which the host waits for; one of two calls is in the trace."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    client = trace.host().line("tf_XLAPjRtCpuClient/3")
    wall = 10_000 + late_us + 20_000
    for number in range(STEPS):
        now = number * wall
        python.event("train_step", now, wall, _r=1, step_num=number)
        if number % 2 == 0:
            python.event("PjRtComputationClient::ExecuteComputation", now + 10_000, 100)
        begun = now + 10_000 + late_us
        client.event("ThunkExecutor::Execute (wait for completion)", begun, 19_900)
        client.event("dot.1", begun, 19_900, hlo_op="dot.1", hlo_module="step")
        python.event("TensorCollectionBarrier", begun, 19_900)
    return trace.sampled(0, STEPS * wall, ops=STEPS * wall)


@pytest.mark.parametrize("late_us", [100, 1_000])
def test_the_cpu_client_begins_what_it_is_handed_also_where_the_trace_lacks_the_call(tmp_path, late_us):
    """Without the call, the one before it seemed to hand the work over, a step earlier."""
    simulator = simulated(on_the_cpu_client(late_us), tmp_path)
    assert simulator.error < 0.01
    assert len(simulator.timeline.work) == STEPS


@pytest.mark.parametrize(("late_ps", "launched"), [(BEGINS_WITHIN_PS, 0), (BEGINS_WITHIN_PS + 1, 1)])
def test_work_that_begins_long_after_its_call_was_handed_over_by_another(late_ps, launched):
    start = np.array([late_ps], np.int64)
    found = _begun_at_once(np.zeros(1, np.int64), start, start + 5)
    assert found.tolist() == [start[0] * launched]


def test_work_behind_other_work_was_handed_over_before():
    length = 10 * BEGINS_WITHIN_PS
    launch, start = np.array([0, 1]), np.array([1, length + 2])
    assert _begun_at_once(launch, start, start + length).tolist() == launch.tolist()


@pytest.mark.parametrize(
    ("one", "other", "stay"),
    [
        (Change(join_cuts=0.0, waits_stay=True), Change(host={"tracing": 0.5}), True),
        (Change(join_cuts=0.0, waits_stay=True), Change(join_cuts=0.0), False),
        (Change(unblock=True), Change(host={"tracing": 0.5}), False),
    ],
)
def test_waits_stay_where_every_change_that_joins_cuts_keeps_them(one, other, stay):
    assert one.and_also(other).waits_stay is stay


def test_cuts_that_are_joined_may_leave_their_waits(tmp_path):
    """The device works for longer than the host: past its waits the host runs ahead, with them it takes turns."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(8):
        at = number * 4000
        python.event("train_step", at, 4000, _r=1)
        for cut in (at + 500, at + 2500):
            python.event("SyncLiveTensorsGraph", cut, 1500)
            python.event("PjRtComputationClient::ExecuteComputation", cut + 300, 100)
            python.event("Wait for donation holds", cut + 400, 1100)
            trace.tpu(0).line("XLA Modules").event("step(1)", cut + 400, 1090)
    simulator = simulated(trace, tmp_path)
    past, kept = (simulator.step_ms(Change(join_cuts=0.0, waits_stay=stay)) for stay in (False, True))
    assert past < kept < simulator.measured_ms
    assert kept == pytest.approx(
        simulator.measured_ms - 0.3, abs=0.01
    )  # the host's part of one of two cuts, but for handing over


def run_inside_calls(*, reads):
    """A JAX host that runs each program itself, in the call, for 8 ms; and works 2 ms beside."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(2 * STEPS):
        at = number * 10_000
        python.event("train", at, 10_000, _r=1, step_num=number)
        python.event("PjitFunction(step)", at, 9000)
        python.event(
            "tpuprof.host_read", at + 100, 50, call="block_until_ready"
        )  # JAX's own, for the order of callbacks
        python.event("PjRtCpuExecutable::ExecuteHelper", at + 1000, 8000)
        python.event("ThunkExecutor::Execute", at + 1000, 8000)
        python.event("dot.1", at + 1000, 8000, hlo_op="dot.1", hlo_module="jit_step", program_id=1)
        if reads:
            python.event("tpuprof.host_read", at + 9100, 50, call="item")
    return trace


@pytest.mark.parametrize(("reads", "left"), [(False, 3.0), (True, 5.0)])
def test_a_program_that_its_caller_runs_may_run_behind_it(tmp_path, reads, left):
    simulator = simulated(run_inside_calls(reads=reads), tmp_path)
    assert simulator.measured_ms == pytest.approx(10, rel=0.02)
    gone = {"compute": 3 / 8}
    assert simulator.step_ms(Change(device=gone)) == pytest.approx(5.0, rel=0.05)
    assert simulator.step_ms(Change(device=gone, let_go=True)) == pytest.approx(left, rel=0.06)
    assert Change(let_go=True).and_also(Change()).let_go
