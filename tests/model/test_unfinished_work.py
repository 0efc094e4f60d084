"""Reads of a number on a trace without a device plane: what they wait for is work that is not finished."""

import json

import numpy as np
import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.analyze import analyze_run
from tpuprof.model.host.unfinished_work import NUMBER_TAKES_PS, USUAL_TO, waited_at_once

MS = 1_000
# Of each step: ops of the training thread.
OPS = 4 * MS
# Programs handed over in them.
TASKS = 10


def training(waits, *, handing_over=1 * MS, compiling=0, tail=0, call=5):
    """Steps of 4 ms of ops; step k then waits `waits[k]` ms in a read, and handing over takes a while of each step.

    `compiling` and `tail` are how long of each wait (ms) a compile, or handing over programs, goes on; each call
    of that lasts `call` ms.
    """
    trace = TraceBuilder()
    main, run = (trace.host().line(name) for name in ("python", "python "))
    compiler = trace.host().line("tf_tt_compile/17")
    at = 100
    for wait in waits:
        read = int(wait * MS)
        main.event("ProfilerStep", at, OPS + read + 90)
        for op in range(20):
            main.event("aten::linear", at + 10 + op * OPS // 20, OPS // 20 - 20)
        for task in range(TASKS):
            run.event("ExecutionTask::Run", at + 20 + task * OPS // TASKS, handing_over // TASKS)
        if read:
            main.event("AtenLocalScalarDense", at + OPS + 20, read).event(
                "CopyTpuToCpu", at + OPS + 25, read - 10
            )
            if compiling:
                name = "PjRtCApiClient::CompileAndLoad(tt_jit_linear)"
                compiler.event(name, at + OPS + 20 + read - compiling * MS, compiling * MS)
            for begin in range(0, tail * MS, call * MS):
                run.event("ExecutionTask::Run", at + OPS + 20 + read - tail * MS + begin, call * MS)
        at += OPS + read + 100
    return trace


@pytest.fixture
def report(tmp_path):
    """Analyze a trace as a capture of tpuprof left it, with these facts of the process."""

    def analyzed(trace, **info):
        folder = tmp_path / "run"
        (folder / "tpuprof").mkdir(parents=True, exist_ok=True)
        profile = folder / "plugins" / "profile" / "2026_11_25" / "host.xplane.pb"
        profile.parent.mkdir(parents=True, exist_ok=True)
        trace.write(profile)
        facts = {"schema": "tpuprof.run/1", "framework": "torch_tpu", "host": "host", **info}
        (folder / "tpuprof" / "run.json").write_text(json.dumps(facts), "utf-8")
        return analyze_run(folder)

    return analyzed


def reads(found):
    return next(each for each in found.findings if each.rule == "device-to-host-sync")


RARE = [0, 0, 0, 0, 95] * 3


def test_a_rare_read_that_waits_for_nearly_all_the_time_waits_for_work_of_the_device(report):
    found = report(training(RARE))
    assert found.verdict.bound == "device"
    assert found.verdict.sentence.startswith(
        "Probably device-bound: work that was handed over before takes 7"
    )
    assert "Sync-bound" not in found.verdict.sentence
    assert reads(found).status == "passed"


def test_a_read_in_each_step_may_cost_what_the_host_does_before_it(report):
    found = report(training([16] * 8))
    # Of 16 ms 10 may be the number's way: at least 6 of 20 ms are work, and all of them may be.
    assert found.verdict.bound == "undecided"
    assert reads(found).savings.high == pytest.approx(20.1 - 6, abs=0.2)


def test_a_read_in_each_step_saves_no_more_than_the_host_works_where_its_wait_is_nearly_all(report):
    found = report(training([40] * 8))
    assert reads(found).savings.high == pytest.approx(44.1 - 30, abs=0.2)


@pytest.mark.parametrize(
    ("wait", "handing_over", "bound", "said"),
    [
        (60, 1 * MS, "device", "Probably device-bound: work that was handed over before takes"),
        (50, 3 * MS, "undecided", "hands over several steps, and then waits 43.0 ms at once for their work"),
        (16, 1 * MS, "dispatch", "the host calls ops"),
    ],
    ids=["device", "either", "one step"],
)
def test_a_wait_for_several_steps_at_once_shows_that_the_host_is_ahead(
    report, wait, handing_over, bound, said
):
    """15 steps of 4 ms, and one that reads: had the device kept up, one step at most would be left to wait for.

    It was "Dispatch-bound ... 48 % of each step" of a loop that the device held back: code without the fault took as long.
    """
    found = report(training([*[0] * 15, wait], handing_over=handing_over)).verdict
    assert found.bound == bound
    assert said in found.sentence


@pytest.mark.parametrize(
    ("own", "waited"),
    [(USUAL_TO * 4, 51), (USUAL_TO * 4 + 0.1, 0)],
)
def test_a_step_that_hands_over_more_itself_waits_for_its_own_work(own, waited):
    """An evaluation of many batches, say, and the read of its result."""
    walls = np.array([*[4e9] * 9, own * 1e9 + 51e9 + NUMBER_TAKES_PS]).astype(np.int64)
    unfinished, feeding = np.array([*[0] * 9, 50 * 10**9]), np.full(10, 10**9)
    assert waited_at_once(unfinished, feeding, walls) == waited * 10**9
    assert waited_at_once(0 * unfinished, feeding, walls) == 0


def test_short_waits_prove_no_work(report):
    found = report(training([9.9] * 8))
    assert "device-bound" not in found.verdict.sentence
    assert reads(found).savings.high == pytest.approx(9.9, abs=0.2)


def worked_at_most(ms, steps):
    """What run.json says where threads without Python worked for so long per step, on XLA's CPU plugin."""
    return {"device": {"type": "tpu", "plugin": "cpu"}, "capture": {"native_seconds": ms * steps / 1000}}


@pytest.mark.parametrize(
    ("at_most", "bound"), [(None, "undecided"), (12.0, "undecided"), (11.6, "sync"), (2.0, "sync")]
)
def test_reads_hold_training_up_where_the_device_works_for_less_than_the_step(report, at_most, bound):
    """Steps of 13.1 ms that wait for 9: a device that works for 11.8 of them leaves a tenth."""
    facts = worked_at_most(at_most, 8) if at_most else {}
    found = report(training([9] * 8), **facts)
    assert found.verdict.bound == bound
    if bound == "undecided":
        assert "The device may work all along and hold training up; or it idles" in found.verdict.sentence
        assert "If steps take as long without these reads, it is the device" in found.verdict.sentence
        assert reads(found).title.startswith("The host waits ")
        first = found.measure_next[0]
        assert first.command.startswith("tpuprof prove device-to-host-sync ") and "verdict" in first.decides


@pytest.mark.parametrize(("at_most", "bound"), [(None, "undecided"), (4.3, "undecided"), (3.8, "dispatch")])
def test_the_host_holds_training_up_where_the_device_works_for_less_than_it(report, at_most, bound):
    """Steps of 6.1 ms, of which the host works for 4."""
    facts = worked_at_most(at_most, 8) if at_most else {}
    found = report(training([2] * 8), **facts).verdict
    assert found.bound == bound
    both = "and waits in device-to-host reads for 33 % (2.00 ms). The device may work all along"
    assert (both in found.sentence) == (bound == "undecided")


@pytest.mark.parametrize(("wait", "bound"), [(0.6, "dispatch"), (0.8, "undecided")])
def test_reads_of_values_that_are_ready_do_not_wait_for_the_device(report, wait, bound):
    """A tenth of a step is 0.5 ms, and reading a value that is ready takes 0.2."""
    assert report(training([wait] * 8)).verdict.bound == bound


def test_a_call_that_hands_over_for_long_waits_for_the_device(report):
    assert report(training(RARE, tail=90, call=30)).verdict.bound == "device"


@pytest.mark.parametrize(("other", "bound"), [("compiling", "compile"), ("tail", "dispatch")])
def test_a_wait_for_a_compile_or_for_handing_over_is_no_work_of_the_device(report, other, bound):
    found = report(training(RARE, **{other: 90})).verdict
    assert found.bound == bound
    assert ("another thread hands programs over" in found.sentence) == (bound == "dispatch")


@pytest.mark.parametrize(("tail", "bound"), [(30, "device"), (45, "undecided"), (85, "dispatch")])
def test_handing_over_is_what_reads_wait_for_where_it_is_clearly_more_than_the_device(report, tail, bound):
    """The device's work is known at least, as only waits show it: of four micro-batches 44 % was "Dispatch-bound"."""
    found = report(training(RARE, tail=tail))
    assert found.verdict.bound == bound
    if bound == "undecided":
        assert found.verdict.sentence.startswith("Undecided: reads wait for work that was handed over before")
        assert "too few samples" not in found.verdict.sentence and "1 of" not in found.verdict.sentence


@pytest.mark.parametrize(("handing", "behind"), [(3_500, False), (3_950, True)])
def test_a_thread_that_never_rests_leaves_open_what_holds_training_up(report, handing, behind):
    """Steps take 4.1 ms. Where handing over takes 96 % of them, training runs ahead of that thread."""
    found = report(training([0] * 8, handing_over=handing))
    assert found.verdict.bound == ("undecided" if behind else "dispatch")
    assert (
        "never rests" in next(each for each in found.findings if each.rule == "eager-dispatch").reason
    ) == behind
    assert ("the training thread is ahead of it" in found.verdict.sentence) == behind


def on_this_cpu(seconds, steps=8):
    """What run.json has of a capture on XLA's CPU plugin, whose native threads worked so long (s)."""
    return {
        "device": {"type": "tpu", "global_count": 1, "local_count": 1, "plugin": "cpu"},
        "capture": {"native_seconds": seconds, "steps_captured": steps},
    }


@pytest.mark.parametrize(
    ("worked_ms", "low", "confidence"),
    [(3, 8, "medium"), (7, 5.1, "medium"), (10, 0, "medium"), (13, 0, "low")],
)
def test_on_the_cpu_a_price_begins_at_what_the_device_cannot_have_worked(report, worked_ms, low, confidence):
    """Of steps of 12.1 ms 8 wait in a read: what the device's threads worked is left of the step.

    From seven tenths of the step on the price of a read begins at nothing, as where a device plane shows that.
    """
    found = reads(report(training([8] * 8), **on_this_cpu(8 * worked_ms / 1e3)))
    assert found.savings.low == pytest.approx(low, abs=0.15)
    assert found.savings.high == pytest.approx(8, abs=0.15)
    assert found.confidence == confidence


def test_a_device_that_is_no_cpu_of_this_machine_keeps_its_range_from_nothing(report):
    info = on_this_cpu(0.02)
    info["device"].pop("plugin")
    found = reads(report(training([8] * 8), **info))
    assert (found.savings.low, found.savings.method) == (0, "bound")
    assert "no device plane" in found.savings.note


def finding(found, rule):
    return next(each for each in found.findings if each.rule == rule)


def one_by_one(steps=8):
    """Steps of 10 ms, of which 5 are a call of an optimizer with an op for each of forty parameters."""
    trace = TraceBuilder()
    main, run = trace.host().line("python"), trace.host().line("python ")
    for number in range(steps):
        at = 100 + number * 10 * MS
        run.event("ExecutionTask::Run", at + 50, 500)
        main.event("ProfilerStep", at, 10 * MS - 10)
        for op in range(20):
            main.event("aten::linear", at + 10 + op * 4 * MS // 20, 4 * MS // 20 - 10)
        main.event("Optimizer.step", at + 4_500, 5 * MS)
        for op in range(40):
            main.event("aten::mul", at + 4_510 + op * 120, 110)
    return trace


def test_on_the_cpu_an_optimizers_loop_has_the_price_of_its_ops(report):
    saved = finding(report(one_by_one(), **on_this_cpu(8 * 2 / 1e3)), "optimizer-loop").savings
    assert (saved.low, saved.high) == (pytest.approx(5 * 0.70, abs=0.05), pytest.approx(5 * 0.88, abs=0.05))


def test_elsewhere_an_optimizers_loop_has_none(report):
    assert finding(report(one_by_one()), "optimizer-loop").savings is None


def broken(parts, steps=8, first=0):
    """Steps of 20 ms: a compiled function in parts of 1 ms, each called by the one before, and their backward passes.

    The first backward pass takes so much longer than the others (us).
    """
    trace = TraceBuilder()
    main, run, backward = (trace.host().line(name) for name in ("python", "python ", "pt_autograd_0"))
    for number in range(steps):
        at = 100 + number * 20 * MS
        run.event("ExecutionTask::Run", at + 50, 500)
        main.event("ProfilerStep", at, 20 * MS - 10)
        main.event("aten::zero_", at + 5, 50)
        for part in range(parts):
            main.event(f"Torch-Compiled Region: {part}/0", at + 100 + part * MS, (parts - part) * MS)
            main.event("CompiledFunction", at + 110 + part * MS, 980)
            late, longer = (first, 0) if part else (0, first)
            backward.event("CompiledFunctionBackward", at + 10 * MS + part * 700 + late, 600 + longer)
            for begins in (110 + part * MS, 10 * MS + part * 700 + late):
                run.event("ExecutionTask::Run", at + 600 + begins, 10)
    return trace


def test_breaks_cost_at_least_calls_as_long_as_the_shortest_and_at_most_all_others(report):
    found = finding(report(broken(8, first=2000), **on_this_cpu(8 * 2 / 1e3)), "graph-breaks")
    values = {each.text: each.value for each in found.evidence}
    least = values["what they take at least because there are several"]
    most = values["calls of all but the shortest, backward passes too"]
    assert least == pytest.approx(7 * 0.98 + 7 * 0.6, abs=0.4)
    assert most == pytest.approx(least + 2.0, abs=0.1)
    between = values["time between the first and the last of them"]
    backward = values["time between the first and the last backward pass of them"]
    assert backward == pytest.approx(7 * 0.1, abs=0.1)
    assert found.savings.low == pytest.approx(least, abs=0.1)
    assert found.savings.high == pytest.approx(most + between + backward, rel=0.01)


def test_what_dynamo_takes_to_enter_parts_is_saved_at_least(report):
    trace = broken(8)
    main = trace.host().line("python")
    for number in range(8):
        for part in range(8):
            main.event("TorchDynamo Cache Lookup", 100 + number * 20 * MS + 70 + part * MS, 25)
    values = [
        next(
            each.value
            for each in finding(report(of, **on_this_cpu(8 * 2 / 1e3)), "graph-breaks").evidence
            if each.text.startswith("what they take at least")
        )
        for of in (broken(8), trace)
    ]
    assert values[1] - values[0] == pytest.approx(7 * 0.025, abs=0.02)


def test_what_breaks_save_is_no_more_than_what_the_device_leaves(report):
    found = finding(report(broken(8), **on_this_cpu(8 * 17 / 1e3)), "graph-breaks")
    assert found.savings.low == pytest.approx(20 - 17, abs=0.1)


def test_few_breaks_count_a_little_for_each_call_and_have_no_price(report):
    found = finding(report(broken(3), **on_this_cpu(8 * 2 / 1e3)), "graph-breaks")
    values = {each.text: each.value for each in found.evidence}
    assert values["what they take at least because there are several"] == pytest.approx((2 + 2) * 0.05)
    assert found.status == "passed" and found.savings is None


def test_a_rare_read_may_wait_for_what_was_handed_over_before_the_recording(report):
    """The first validation compiled in one of eight steps: "compile-bound ... that is the usual step" was said."""
    found = report(training([*[0] * 7, 60], compiling=25)).verdict
    assert found.bound == "undecided"
    assert "nearly all of it in 1 of 8 steps). The device may work all along" in found.sentence


@pytest.mark.parametrize("at_most", [1.0])
def test_what_the_device_worked_at_most_tells_it_of_a_rare_read_as_well(report, at_most):
    found = report(training([*[0] * 7, 60], compiling=25), **worked_at_most(at_most, 8)).verdict
    assert found.bound == "sync"
