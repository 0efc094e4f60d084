"""What JAX leaves on the host: compiles under the names of several versions, and reads of arrays."""

import numpy as np
import pytest

from tests.builders import TraceBuilder, op
from tpuprof.analysis.sections.host_stacks import host_stack_rows
from tpuprof.model.compile.compiles import Compile, earlier_programs
from tpuprof.model.compile.newest import with_newest
from tpuprof.model.device.gpu import RUNS_FROM_SHARE
from tpuprof.model.host.array_waits import OWN_WAIT_FROM_SHARE, waits_between
from tpuprof.model.host.handing_over import LARGE_FROM_SHARE
from tpuprof.model.host.vocabulary import NameSet
from tpuprof.model.intervals import union
from tpuprof.model.steps.table import WHOLE_FROM_SHARE

STEP, COUNT = 1000, 6


def loop(read="", compiled="", function="train_step"):
    """Steps of a jitted function: the host hands it over, may compile it in the fourth step, and may read its result."""
    trace = TraceBuilder()
    python, modules = trace.host().line("python"), trace.tpu(0).line("XLA Modules")
    for number in range(COUNT):
        at = number * STEP
        python.event("train", at, STEP, _r=1, step_num=number)
        python.event(f"PjitFunction({function})", at + 300, 50)
        if compiled and number == 3:
            python.event(compiled, at + 10, 280)
        modules.event(f"jit_{function}({7 if not compiled or number < 3 else 8})", at + 350, 600)
        trace.tpu(0).line("XLA Ops").event(start=at + 350, duration=600, **op("fusion.1"))
        if read:
            python.event(read, at + 400, 555)
    return trace


@pytest.mark.parametrize(
    "event",
    [
        "backend_compile",
        "backend_compile_and_load",
        "backend_compile_and_load#module=jit_f#",
        "PjRtCpuClient::Compile",
    ],
)
def test_compiles_of_each_version_are_found(analyze, event):
    report = analyze(loop(compiled=event))
    assert [(row.step, row.duration_ms) for row in report.compiles] == [(3, 0.28)]
    assert report.compiles[0].program == "jit_train_step(8)"


@pytest.mark.parametrize(
    ("event", "call"),
    [
        ("np.asarray(jax.Array)", "np.asarray(jax.Array)"),
        ("$array.py:310 __float__", "__float__"),
        ("$array.py:99 item", "item"),
        ("$api.py:2700 device_get", "device_get"),
    ],
)
def test_a_read_in_each_step_is_the_verdict(analyze, event, call):
    report = analyze(loop(read=event))
    assert report.verdict.bound == "sync"
    assert [row.call for row in report.host_reads] == [call]
    found = next(each for each in report.findings if each.rule == "device-to-host-sync")
    assert found.status == "failed"


def test_waiting_in_python_is_a_wait(analyze):
    assert analyze(loop(read="$api.py:3050 block_until_ready")).host_reads == []


def test_a_function_of_the_same_name_in_another_file_is_no_read(analyze):
    assert analyze(loop(read="$train.py:310 __float__")).host_reads == []


def test_a_star_stands_for_text_at_the_end_or_inside():
    names = NameSet.of(["exact", "head*", "$array.py:* item"])
    told = ["exact", "header", "$array.py:7 item", "exactly", "$array.py:7 items", "$other.py:7 item"]
    assert names.rows(told).tolist() == [0, 1, 2]


def test_a_program_is_compared_with_earlier_ones_of_its_own_function():
    made = Compile(3, "", "jit__psum(9)", 100, 10)
    known = ["jit_f(1)", "jit__psum(2)", "jit_broadcast_in_dim(3)", "jit__psum(9)"]
    assert earlier_programs(made, [made], known) == ["jit__psum(2)"]
    graph = Compile(3, "", "SyncTensorsGraph.20(9)", 100, 10)
    assert earlier_programs(graph, [graph], ["SyncTensorsGraph.7(1)"]) == ["SyncTensorsGraph.7(1)"]


def one_by_one(steps=8, ops=12, inside=0):
    """Steps without jit and without a marker: each op is a call, which holds itself `inside` times."""
    trace = TraceBuilder()
    python, run = trace.host().line("python"), trace.host().line("tf_XLAEigen/1")
    for number in range(steps):
        for call in range(ops):
            name = ("tanh", "matmul", "multiply")[call % 3] if call else "subtract"
            at = number * 2000 + call * 100
            for depth in range(inside + 1):
                python.event(f"PjitFunction({name})", at + depth, 60 - 2 * depth)
            run.event("ThunkExecutor::Execute", at + 50, 5)
    return trace


def test_ops_under_vmap_are_calls_though_each_holds_itself(analyze):
    """An augmentation under `jax.vmap` ran 52 programs per step; 46 of them counted as other functions' own."""
    report = analyze(one_by_one(inside=3))
    assert "12 calls" in report.steps.note
    (found,) = [each for each in report.findings if each.rule == "eager-dispatch"]
    assert (found.status, found.title[:29]) == ("failed", "A step runs 12 programs one b")


def test_steps_without_markers_come_from_what_is_called(analyze):
    report = analyze(one_by_one())
    # A step may begin at any call of the period, so the first and the last may be cut.
    assert report.steps.count in (7, 8)
    assert report.steps.method == "inferred from calls of jitted functions"
    assert report.steps.median_ms == pytest.approx(2)
    assert "12 calls" in report.steps.note


def test_a_step_of_one_call_is_named_by_it(analyze):
    """ "A step is one repetition of 1 call of jitted functions" was said."""
    note = analyze(one_by_one(ops=1)).steps.note
    assert note == "no step marker in the trace: a step is one call of subtract"


def beside_ops(device_op, call_us=2, steps=6):
    """Steps of one call of `train_step` and nine of ops; the CPU device names the programs where `device_op`."""
    trace = TraceBuilder()
    python, run = trace.host().line("python"), trace.host().line("tf_XLAEigen/1")
    for step in range(steps):
        for call, name in enumerate(["train_step"] + ["add", "square", "multiply"] * 3):
            at = step * 2000 + call * 100 + 600 * bool(call)
            python.event(f"PjitFunction({name})", at, call_us if name == "train_step" else 60)
            facts = {"hlo_op": "dot.1", "hlo_module": f"jit_{name}", "program_id": len(name)}
            length = 90 if name == "train_step" else 2
            run.event("ThunkExecutor::Execute", at + 5, length)
            if device_op:
                run.event(f"dot.{len(name)}", at + 5, length - 1, **facts)
    return trace


@pytest.mark.parametrize(
    ("device_op", "call_us", "said"),
    [
        (True, 2, "(1 x train_step with 91 % of the device's time, 3 x add, 3 x square and 1 other)"),
        (False, 95, "(3 x add, 3 x square, 3 x multiply and 1 other)"),
        (False, 600, "(1 x train_step with 53 % of the time in calls, 3 x add, 3 x square and 1 other)"),
    ],
)
def test_a_period_of_calls_is_named_by_its_heaviest_function(analyze, device_op, call_us, said):
    """97 calls were "17 x add, 16 x square, 8 x real and 11 others": `train_step` was most of it, and was left out."""
    note = analyze(beside_ops(device_op, call_us)).steps.note
    assert f"one repetition of 10 calls of jitted functions {said}" in note


def test_ops_without_jit_are_found_and_advised_for_jax(analyze):
    report = analyze(one_by_one())
    (found,) = [each for each in report.findings if each.rule == "eager-dispatch"]
    assert found.status == "failed"
    assert "jax.jit" in found.fix.text and "TORCH_TPU" not in found.fix.text


def test_ops_without_jit_have_a_price(analyze):
    report = analyze(one_by_one())
    (found,) = [each for each in report.findings if each.rule == "eager-dispatch"]
    assert 0.5 <= found.savings.low <= found.savings.high <= 2.0 and not found.reason


def rollout(others, steps=8, calls=30):
    """Steps that call `act` again and again, `others` calls of other functions in between, and `learn` at the end."""
    trace = TraceBuilder()
    python, run = trace.host().line("python"), trace.host().line("tf_XLAEigen/1")
    for number in range(steps):
        for call in range(calls):
            name = f"other{call}" if call < others else "act" if call < calls - 1 else "learn"
            at = number * 3000 + call * 90
            python.event(f"PjitFunction({name})", at, 60)
            run.event("ThunkExecutor::Execute", at + 50, 5)
    return trace


@pytest.mark.parametrize(("others", "one_function"), [(0, True), (4, True), (6, False)])
def test_many_calls_of_one_function_are_no_ops_that_run_one_by_one(analyze, others, one_function):
    (found,) = [each for each in analyze(rollout(others)).findings if each.rule == "eager-dispatch"]
    assert found.status == "failed"
    assert ("A step calls jitted functions 30 times, most often act, and" in found.title) is one_function
    # They have the events that ops have: untrue is that ops run one by one.
    named = "A step runs 30 programs one by one (23 x act, 1 x other0, 1 x other1 and 5 calls of 5 others)"
    assert found.title.startswith(named) is not one_function
    assert not [each for each in found.evidence if "ops" in each.text]
    assert (found.savings.low == pytest.approx(0)) is one_function


def test_jax_marks_no_optimizer_so_its_loop_is_not_judged(analyze):
    (found,) = [each for each in analyze(one_by_one()).findings if each.rule == "optimizer-loop"]
    assert (found.status, found.evidence) == ("not_applicable", [])


def test_few_calls_per_step_are_no_fault(analyze):
    report = analyze(one_by_one(ops=3))
    assert "eager-dispatch" not in [each.rule for each in report.findings if each.status == "failed"]


def test_calls_while_a_function_is_traced_are_no_steps(analyze):
    trace = one_by_one()
    python = trace.host().line("python")
    python.event("PjitFunction(train_step)", 20_000, 5000)
    for call in range(30):
        python.event("PjitFunction(add)", 20_010 + call * 100, 50)
    assert analyze(trace).steps.count in (7, 8)


def compiles_inside_calls(steps=6):
    """Each step calls a function that is traced, compiled and run inside the call; the run takes next to nothing."""
    trace = TraceBuilder()
    python, run = trace.host().line("python"), trace.host().line("tf_XLAPjRtCpuClient/1")
    for number in range(steps):
        at = number * 10_000
        python.event("PjitFunction(train_step)", at, 9_000)
        python.event("trace_to_jaxpr", at + 100, 1_000)
        python.event("backend_compile_and_load", at + 1_200, 7_000)
        run.event("ThunkExecutor::Execute (wait for completion)", at + 8_500, 10)
    return trace


def test_a_compile_inside_the_call_is_worth_what_it_takes(analyze):
    report = analyze(compiles_inside_calls())
    assert report.verdict.bound == "compile"
    first = next(each for each in report.findings if each.status == "failed")
    assert first.rule == "recompiles-other"
    # The compile, and the tracing that JAX does to compile.
    assert first.savings.high == pytest.approx(8, rel=0.05)


def branches_outside_of_jit(steps=6, ops=100):
    """Each step traces the branches of a `jax.lax.cond`, whose ops run nothing, compiles it and calls it."""
    trace = TraceBuilder()
    python, run = trace.host().line("python"), trace.host().line("tf_XLAPjRtCpuClient/1")
    for number in range(steps):
        at = number * 10_000
        python.event("PjitFunction(grad)", at, 100)
        python.event("trace_to_jaxpr_dynamic", at + 200, 2_900)
        for at_op in range(ops):
            python.event("PjitFunction(multiply)", at + 210 + at_op * 28, 20)
        python.event("PjitFunction(cond)", at + 3_200, 6_700)
        python.event("backend_compile_and_load", at + 3_300, 6_500)
        run.event("ThunkExecutor::Execute (wait for completion)", at + 9_850, 10)
    return trace


def test_ops_that_are_only_traced_run_nothing(analyze):
    """`optax.MultiSteps` outside of jit: "A step runs 1,928 programs one by one" was said of 56 programs."""
    report = analyze(branches_outside_of_jit())
    assert "2 calls" in report.steps.note
    assert report.breakdown["tracing"].ms_per_step == pytest.approx(2.9, abs=0.3)
    (first,) = [each for each in report.findings if each.status == "failed"]
    assert first.rule == "recompiles-other"
    # The compile, and the tracing that JAX does to compile.
    assert first.savings.high == pytest.approx(9.5, rel=0.06)


def made(start, program=""):
    return Compile(0, "", program, start, 10)


@pytest.mark.parametrize(
    ("programs", "ran", "embedded", "named"),
    [
        (["", ""], [], ["jit_a(1)", "jit_f(3)", "jit_f(5)"], ["jit_f(3)", "jit_f(5)"]),
        (["", "jit_f(5)"], ["jit_f(5)"], ["jit_f(3)", "jit_f(5)"], ["jit_f(3)", "jit_f(5)"]),
        # What ran under its own name was not made by a compile that nothing is known of.
        (["", ""], ["jit_f(5)"], ["jit_a(1)", "jit_f(3)", "jit_f(5)"], ["jit_a(1)", "jit_f(3)"]),
        (["", ""], [], ["jit_f(3)"], ["", ""]),
        # Fingerprints have no order.
        ([""], [], ["SyncTensorsGraph.7(14940262714490726846)"], [""]),
        (["waits for completion"], [], ["jit_f(3)"], ["jit_f(3)"]),
        # Numbers rise as programs are compiled: what was compiled between 5 and 9 is none of those before.
        (
            ["jit_p(5)", "", "", "jit_s(9)"],
            [],
            ["jit_a(1)", "jit_b(3)", "jit_p(5)", "jit_s(9)"],
            ["jit_p(5)", "", "", "jit_s(9)"],
        ),
        (
            ["jit_p(5)", "", "jit_s(9)", ""],
            [],
            ["jit_b(3)", "jit_p(5)", "jit_f(7)", "jit_s(9)", "jit_g(11)"],
            ["jit_p(5)", "jit_f(7)", "jit_s(9)", "jit_g(11)"],
        ),
    ],
)
def test_the_newest_programs_are_those_that_were_compiled(programs, ran, embedded, named):
    compiles = [made(row, program) for row, program in enumerate(programs)]
    assert [each.program for each in with_newest(compiles, ran, embedded)] == named


def test_calls_inside_one_that_the_capture_cut_off_are_no_steps(analyze):
    trace = TraceBuilder()
    python, run = trace.host().line("python"), trace.host().line("tf_XLAEigen/1")
    for number in range(8):
        python.event("PjitFunction(step)", number * 2000, 1900)
        for call in range(6):
            python.event("PjitFunction(tanh)", number * 2000 + 10 + call * 100, 50)
        run.event("ThunkExecutor::Execute", number * 2000 + 1800, 50)
    for call in range(6):
        python.event("PjitFunction(tanh)", 16_010 + call * 100, 50)
    report = analyze(trace)
    assert (report.steps.count, report.steps.method) == (8, "inferred from calls of jitted functions")


def with_pauses(steps=6, last=0):
    """A jitted step of 100 us in each millisecond: the host sleeps in between, also after the last one."""
    trace = TraceBuilder()
    python, run = trace.host().line("python"), trace.host().line("tf_XLAEigen/1")
    for number in range(steps):
        python.event("PjitFunction(step)", number * 1000, 100)
        run.event("ThunkExecutor::Execute", number * 1000 + 50, 40)
    if last:
        python.event("PjitFunction(step)", steps * 1000, last)
    return trace


@pytest.mark.parametrize(("last", "count"), [(100, 6), (int(1000 * WHOLE_FROM_SHARE) + 10, 7)])
def test_a_last_step_that_ends_with_its_call_is_not_whole(analyze, last, count):
    """What the host does after the last call is not seen: counted as a step, it would hide a tenth of the sleep."""
    report = analyze(with_pauses(last=last))
    assert report.steps.count == count
    assert report.steps.median_ms == pytest.approx(1)


def after_a_slow_start(starts=10_000, stops=6_000, calls=5):
    """A loop that nothing marks, recorded by a profiler that starts and stops for longer than the loop takes."""
    trace = TraceBuilder()
    python, kernels = trace.host().line("python3"), trace.plane("/device:GPU:0").line("Stream #2")
    python.event("$profiler.py:101 start_trace", 0, starts)
    for number in range(calls):
        at = starts + 10 + number * 1000
        python.event("PjitFunction(loss_fn)", at, 500)
        python.event("PjitFunction(loss_fn)", at + 1, 498)
        python.event("$api.py:3105 block_until_ready", at + 510, 480)
        kernels.event("gemm_fusion_dot.kd", at + 50, 900, hlo_op="gemm_fusion_dot", hlo_module="jit_loss_fn")
    python.event("$profiler.py:213 stop_trace", starts + 10 + calls * 1000, stops)
    return trace


@pytest.mark.parametrize(("starts", "stops"), [(10, 10), (10_000, 6_000)])
def test_the_profilers_own_start_and_stop_are_no_time_of_the_program(analyze, starts, stops):
    report = analyze(after_a_slow_start(starts, stops))
    assert report.steps.method == "inferred from calls of jitted functions"
    assert (report.steps.count, report.steps.median_ms) == (4, pytest.approx(1.0))
    assert report.verdict.bound == "device"
    assert report.run_summary.device_busy_share == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize(("starts", "stops"), [(10, 10), (10_000, 6_000)])
def test_the_whole_capture_is_what_the_profiler_recorded(analyze, starts, stops):
    report = analyze(after_a_slow_start(starts, stops, calls=2))
    assert report.steps.whole_capture
    assert report.steps.per_step[0].wall_ms == pytest.approx(2.01)
    assert report.verdict.bound == "device"


def with_an_upload_around(before, after, calls=6, samples=10):
    """A loop that calls a program each millisecond, between two uploads of so long (us), as samples show."""
    trace = TraceBuilder()
    python, run = trace.host().line("python"), trace.host().line("tf_XLAPjRtCpuClient/1")
    for number in range(calls):
        at = before + number * 1000
        python.event("PjitFunction(step)", at, 300)
        run.event("ThunkExecutor::Execute (wait for completion)", at + 50, 900)
    frames = "check_call (/usr/lib/python3/subprocess.py:9)|<module> (/home/u/train.py:20)"
    for begin, took in ((0, before), (before + calls * 1000, after)):
        for number in range(samples):
            at = begin + took * number // samples
            trace.sampled(at, took // samples, cpu=0, frames="" if at else frames)
    return trace


@pytest.mark.parametrize("edge", ["before", "after"])
def test_steps_that_hold_little_of_what_was_recorded_are_no_steps(analyze, edge):
    """The 6 ms between two uploads said nothing of the uploads, which take most of the time."""
    few = analyze(with_an_upload_around(**{"before": 100, "after": 100, edge: 9000}))
    assert few.steps.whole_capture
    assert few.steps.per_step[0].wall_ms == pytest.approx(15, abs=1.2)
    assert few.verdict.bound not in ("device", "unknown")
    most = analyze(with_an_upload_around(**{"before": 100, "after": 100, edge: 3000}))
    assert (most.steps.whole_capture, most.steps.count) == (False, 5)


def behind_a_compile(took, event="", waited=0):
    """Five whole steps of 1 ms behind a compile of so long (us) on the training thread, and something else of `waited`.

    Where the compile has no event, because it began before the recording, samples show it.
    """
    trace = TraceBuilder()
    python, run = trace.host().line("python"), trace.host().line("tf_XLAPjRtCpuClient/1")
    frames = (
        "<module> (/home/u/train.py:20);backend_compile_and_load (/v/site-packages/jax/_src/compiler.py:9)"
    )
    if event:
        python.event(event, 0, took)
    for number in range(10):
        trace.sampled(took * number // 10, took // 10, frames="" if number else frames)
    for number in range(6):
        at = took + waited + number * 1000
        python.event("PjitFunction(step)", at, 300)
        run.event("ThunkExecutor::Execute (wait for completion)", at + 50, 900)
    return trace


@pytest.mark.parametrize("event", ["", "backend_compile"])
@pytest.mark.parametrize(("waited", "found"), [(3_000, True), (9_000, False)])
def test_a_compile_that_takes_longer_than_training_hides_no_step(analyze, event, waited, found):
    report = analyze(behind_a_compile(30_000, event, waited))
    assert report.steps.whole_capture is not found
    assert report.verdict.bound == ("device" if found else "compile")


def test_work_that_ends_while_the_profiler_stops_belongs_to_the_capture(analyze):
    trace = after_a_slow_start(calls=2)
    trace.plane("/device:GPU:0").line("Stream #2").event("gemm_fusion_dot.kd", 12_010, 500)
    assert analyze(trace).steps.per_step[0].wall_ms == pytest.approx(2.51)


def handed_over(inside, waits=0, kernels=6):
    """Six calls of 1 ms on one GPU that works for 100 us of each; a thread of the runtime is in one event `inside` us."""
    trace = TraceBuilder()
    python, runtime = trace.host().line("python3"), trace.host().line("py_xla_execute/1")
    stream = trace.plane("/device:GPU:0").line("Stream #2")
    for number in range(6):
        at = number * 1000
        python.event("PjitFunction(f)", at, 1000 - waits)
        if waits:
            python.event("block_until_ready", at + 1000 - waits, waits)
        runtime.event("ExecuteHelper", at + 10, 700)
        runtime.event("Build buffer allocations", at + 110, inside)
        if number < kernels:
            stream.event("k.kd", at, 100, hlo_op="dot.1", hlo_module="jit_f")
    return trace


@pytest.mark.parametrize(
    ("share", "named"),
    [(LARGE_FROM_SHARE + 0.01, "Build buffer allocations"), (LARGE_FROM_SHARE - 0.01, "ExecuteHelper")],
)
def test_the_innermost_large_event_of_dispatch_is_named(analyze, share, named):
    report = analyze(handed_over(share * 900))
    assert report.verdict.bound == "dispatch"
    said = report.verdict.sentence
    assert f"is inside {named!r} on one thread" in said
    assert "wait" not in said


@pytest.mark.parametrize(
    ("share", "said"), [(LARGE_FROM_SHARE + 0.04, True), (LARGE_FROM_SHARE - 0.01, False)]
)
def test_a_wait_for_work_that_does_not_begin_is_named(analyze, share, said):
    sentence = analyze(handed_over(10, waits=round(share * 900))).verdict.sentence
    assert ("or waits for them to begin" in sentence) is said
    assert ("is a wait for work that it handed over" in sentence) is said


@pytest.mark.parametrize(("kernels", "lacks"), [(6, False), (5, False), (4, True)])
def test_runs_of_ops_that_are_missing_are_said(analyze, kernels, lacks):
    assert RUNS_FROM_SHARE == 0.75
    warnings = analyze(handed_over(10, kernels=kernels)).warnings
    assert any("lacks work of the GPU" in each for each in warnings) is lacks


@pytest.mark.parametrize(("making", "diagnosis"), [(0, "no_prefetch"), (950, "slow_loader")])
def test_tf_data_is_input(analyze, making, diagnosis):
    """Its iterators nest on the thread that asks, and on its own threads where they work ahead."""
    trace = loop()
    python = trace.host().line("python")
    for number in range(COUNT):
        python.event("IteratorGetNext::DoCompute", number * STEP, 290)
        python.event("Iterator::Root::Prefetch" if making else "Iterator::Root::Map", number * STEP + 5, 280)
        if making:
            trace.host().line("tf_data_map").event(
                "Iterator::Root::Prefetch::Map", number * STEP + 10, making
            )
    report = analyze(trace)
    (row,) = report.input
    assert row.diagnosis == diagnosis
    assert row.wait_ms_per_step == pytest.approx(0.29)
    assert report.verdict.bound == "input"


def pmapped(function="JaxPmapFunction(train_step)", steps=8, devices=4):
    """Each step calls one function that runs on several devices, after Python made the batch."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(steps):
        at = number * 3_000
        python.event(function, at + 1_000, 700)
        python.event("ndarray pmap ShardArg", at + 1_010, 90)
        for device in range(devices):
            run = trace.host().line(f"tf_XLAPjRtCpuClient/{device}")
            run.event("ThunkExecutor::Execute (wait for completion)", at + 1_700 + device * 50, 1_000)
    return trace


@pytest.mark.parametrize("function", ["JaxPmapFunction(train_step)", "PjitFunction(train_step)"])
def test_a_call_that_runs_on_four_devices_is_one_step(analyze, function):
    report = analyze(pmapped(function))
    assert (report.steps.count, report.steps.confidence) == (7, "medium")  # the last one is not whole
    assert report.steps.method == "inferred from calls of jitted functions"
    assert report.steps.median_ms == pytest.approx(3)
    assert report.breakdown["dispatch"].ms_per_step == pytest.approx(0.61, abs=0.1)
    assert report.breakdown["host_to_device"].ms_per_step == pytest.approx(0.09, abs=0.02)


def called_ahead(steps=12, run_us=100_000):
    """The host calls all steps within a moment and then waits, without an event; each runs for long on the device."""
    trace = TraceBuilder()
    python, run = trace.host().line("python"), trace.host().line("tf_XLAPjRtCpuClient/1")
    for number in range(steps):
        python.event("PjitFunction(step)", 1_000 + number * 50, 30)
        at = 1_040 + number * run_us
        run.event("ThunkExecutor::Execute (wait for completion)", at, 0.95 * run_us)
    return trace


def test_steps_that_the_host_called_ahead_last_as_long_as_the_device_takes(analyze):
    """The calls repeat every 50 us; the device needs 100 ms for each."""
    report = analyze(called_ahead())
    assert report.steps.method == "inferred from the period of XLA Modules"
    assert report.steps.median_ms == pytest.approx(100, rel=0.01)
    assert report.verdict.bound == "device"


def test_calls_that_hold_the_device_s_work_are_the_steps(analyze):
    """The same calls, with a device that keeps up."""
    report = analyze(called_ahead(run_us=50))
    assert report.steps.method == "inferred from calls of jitted functions"
    assert report.steps.median_ms == pytest.approx(0.05, rel=0.1)


def a_call_and_the_next_line(call):
    """The words of two stacks: in that call at line 7, and at line 8."""
    words = {
        "frames": "<module> (/home/u/train.py:7)",
        "call": call,
        "source": "/home/u/train.py:7",
        "user_call": call,
    }
    other = {**words, "frames": "<module> (/home/u/train.py:8)", "call": "", "source": "/home/u/train.py:8"}
    return words, other


def waits_in(call, steps=8, cpu=3_900):
    """Steps of 10 ms: the device works for 6 ms while the thread waits in that call, as samples show; then it computes."""
    trace = TraceBuilder()
    python, run = trace.host().line("python"), trace.host().line("tf_XLAPjRtCpuClient/1")
    words, other = a_call_and_the_next_line(call)
    for number in range(steps + 1):
        at = number * 10_000
        python.event("PjitFunction(step)", at, 300)
        run.event("ThunkExecutor::Execute (wait for completion)", at + 50, 5_950)
        trace.sampled(at, 3_000, cpu=300, stack=1, asleep=True, **(words if not number else {}))
        trace.sampled(at + 3_000, 6_900, cpu=cpu, stack=2, asleep=False, **(other if not number else {}))
    return trace


def read_every(calls, groups=8):
    """The host calls so many steps ahead and then waits in one read; a step takes the device 5 ms."""
    trace = TraceBuilder()
    python, modules = trace.host().line("python"), trace.tpu(0).line("XLA Modules")
    words, other = a_call_and_the_next_line("np.asarray(logits)")
    at = 0
    for group in range(groups):
        trace.sampled(at - 100, 100, cpu=100, stack=2, asleep=False, **({} if group else other))
        for call in range(calls):
            python.event("PjitFunction(step)", at + 50 * call, 30)
            modules.event("jit_step(7)", at + 50 + 5_000 * call, 5_000)
            trace.tpu(0).line("XLA Ops").event(start=at + 50 + 5_000 * call, duration=5_000, **op("fusion.1"))
        begin, end = at + 50 * calls, at + 50 + 5_000 * calls
        for look in range(calls):
            since, until = (begin + (end - begin) * each // calls for each in (look, look + 1))
            first = words if not group and not look else {}
            trace.sampled(since, until - since, cpu=20, stack=1, asleep=True, **first)
        at = end + 200
    return trace


@pytest.mark.parametrize("calls", [1, 2, 10])
def test_a_wait_that_lasts_for_many_steps_is_one_read(analyze, calls):
    """287 reads were said of 29, each of which waited for ten steps of a device that was behind."""
    (read,) = analyze(read_every(calls)).host_reads
    assert (read.call, read.source) == ("__array__", "/home/u/train.py:7")
    # The last step may not be whole.
    assert read.occurrences in (7, 8)


@pytest.mark.parametrize(
    ("waits", "calls", "count"),
    [
        # One, in which samples are missing.
        ([(10, 60), (70, 110)], [0, 120], 1),
        # Two that follow each other, and one that no call precedes.
        ([(10, 60)], [0, 36], 2),
        ([(10, 60)], [70, 80], 1),
        # It seems to begin before the call in front of it, or to last until after the next.
        ([(10, 60)], [0, 10 + 50 * OWN_WAIT_FROM_SHARE / (1 + OWN_WAIT_FROM_SHARE) - 1], 1),
        ([(10, 60)], [0, 10 + 50 * OWN_WAIT_FROM_SHARE / (1 + OWN_WAIT_FROM_SHARE) + 1], 2),
        ([(10, 60)], [0, 59], 1),
    ],
)
def test_waits_are_told_apart_by_the_calls_between_them(waits, calls, count):
    begin, end = np.array(waits, np.int64).T * 10**9
    assert waits_between(union(begin, end), np.array(calls) * 10**9) == count


@pytest.mark.parametrize("call", ["np.asarray(logits)", "numpy.array(logits)"])
def test_a_wait_for_an_array_in_numpy_is_a_read(analyze, call):
    """It leaves no event."""
    report = analyze(waits_in(call))
    (read,) = report.host_reads
    assert (read.call, read.source, read.occurrences) == ("__array__", "/home/u/train.py:7", 8)
    # Host and device take turns at it. That Python behind it costs as much is surer, on a device that is the host's CPU.
    assert report.verdict.bound == "host"
    assert (
        " Beside it, an array turned into a NumPy array at /home/u/train.py:7 makes host and device take turns, up to 40 %"
    ) in report.verdict.sentence


def test_a_wait_in_another_call_is_no_read(analyze):
    report = analyze(waits_in("answer.fetch()"))
    assert not report.host_reads
    assert report.verdict.bound != "sync"


@pytest.mark.parametrize("cpu", [3_900, 1_900])
def test_a_wait_for_an_array_ends_when_the_device_is_done(read, cpu):
    """The next sample found the thread off the CPU for 2 ms more: that was in what it did afterwards."""
    columns = read(waits_in("np.asarray(logits)", cpu=cpu)).breakdown.parts
    parts = {name: float(column.mean()) / 1e9 for name, column in columns.items()}
    assert parts["device_to_host_sync"] == pytest.approx(0, abs=0.1)
    assert parts["host:python"] == pytest.approx(3.9, abs=0.3)


def spins_in(call, asleep, steps=8):
    """Steps of 10 ms: the device works for 2 ms. The thread is seen in that call at 3 ms, on a CPU, and in some asleep."""
    trace = TraceBuilder()
    python, run = trace.host().line("python"), trace.host().line("tf_XLAPjRtCpuClient/1")
    words, other = a_call_and_the_next_line(call)
    for number in range(steps + 1):
        at = number * 10_000
        python.event("PjitFunction(step)", at, 300)
        run.event("ThunkExecutor::Execute (wait for completion)", at + 50, 1_950)
        sleeps = number % 2 < asleep
        cpu = 300 if sleeps else 3_000
        trace.sampled(at, 3_000, cpu=cpu, stack=1, asleep=sleeps, **(words if not number else {}))
        trace.sampled(at + 3_000, 6_900, cpu=6_900, stack=2, asleep=False, **(other if not number else {}))
    return trace


@pytest.mark.parametrize("asleep", [1, 0])
def test_a_read_that_spins_for_its_array_is_no_code_of_the_line(read, asleep):
    """ "The host runs code that gives the device no work at np.asarray(act(obs))" was said. Numbers of Python's never sleep."""
    host = read(spins_in("np.asarray(act(obs))", asleep))
    own = sum(
        row.exposed_ms_per_step
        for row in host_stack_rows([host])
        if row.part == "host:python" and row.source.endswith(":7")
    )
    sync = float(host.breakdown.parts["device_to_host_sync"].mean()) / 1e9
    assert (own, sync) == (pytest.approx(0, abs=0.05), pytest.approx(1, abs=0.3)) if asleep else own >= 0.9
