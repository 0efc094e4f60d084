"""A host that runs ahead of the CPU device: programs that are handed over and do not run within the recording."""

from pathlib import Path

import pytest

from tests.builders import TraceBuilder
from tpuprof.analysis.analyze import analyze_run
from tpuprof.decode.find import find_all
from tpuprof.model.device.cpu import Queue
from tpuprof.model.run import build_run

ROOT = Path(__file__).resolve().parents[2]

STEPS = 10


def run_ahead(ran):
    """Ten steps of 1 ms that trace for 600 us each; `ran` of the ten programs begin while the profiler is on."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    client, device = trace.host().line("tf_pytorchxla/1"), trace.host().line("tf_XLAPjRtCpuClient/2")
    for number in range(STEPS):
        begin = 1000 * number
        python.event("train_step", begin, 1000, _r=1, step_num=number)
        python.event("SyncTensorsGraph", begin, 600)
        client.event("PjRtCpuExecutable::ExecuteHelper", begin + 610, 20)
        if number < ran:
            runs(trace, device, begin + 700)
    return trace


def runs(trace, device, begin):
    """One program as XLA's CPU client records it: a loop waits inside, and threads of the pool run its parts."""
    device.event("ThunkExecutor::Execute (wait for completion)", begin, 200)
    pool = trace.host().line("tf_XLAEigen/3")
    for part in range(5):
        device.event("ThunkExecutor::Execute (wait for completion)", begin + 10 + 30 * part, 20)
        pool.event("ThunkExecutor::Execute", begin + 10 + 30 * part, 20)
        pool.event("dot.1", begin + 12 + 30 * part, 10, hlo_op="dot.1", hlo_module="g", program_id=1)


@pytest.mark.parametrize(
    ("ran", "word"), [(0, "undecided"), (7, "undecided"), (8, "tracing"), (10, "tracing")]
)
def test_a_device_that_runs_fewer_programs_than_it_gets_is_behind(tmp_path, ran, word):
    report = analyze_run(run_ahead(ran).write(tmp_path / "host.xplane.pb"))
    assert report.verdict.bound == word
    tracing = next(each for each in report.findings if each.rule == "tracing-bound")
    if word == "undecided":
        begun = f"{ran} of them" if ran else "none of them"
        assert f"handed 10 programs over, and {begun} began" in report.verdict.sentence
        assert tracing.status == "unavailable"
        assert {each.bound for each in report.steps.per_step} == {"undecided"}
    else:
        assert tracing.status == "failed"


@pytest.mark.parametrize(
    ("event", "bound", "said"),
    [
        ("tpuprof.dataloader.next", "input", "Meanwhile the host waits for data or copies it for 60 %"),
        ("tpuprof.checkpoint", "checkpoint", "Meanwhile the host is in checkpoint for 60 %"),
    ],
)
@pytest.mark.parametrize("ran", [7, 10])
def test_so_it_is_with_what_else_the_host_does(tmp_path, event, bound, said, ran):
    """Rules of the host's work are not asked then: a verdict that names it would contradict them."""
    trace = TraceBuilder()
    python, client = trace.host().line("python"), trace.host().line("client")
    for number in range(STEPS):
        begin = 1000 * number
        python.event("train", begin, 1000, _r=1, step_num=number)
        python.event(event, begin, 600)
        python.event("PjitFunction(step)", begin + 605, 20)
        client.event("PjRtCpuExecutable::ExecuteHelper", begin + 610, 20)
        if number < ran:
            runs(trace, trace.host().line("device"), begin + 700)
    report = analyze_run(trace.write(tmp_path / "host.xplane.pb"))
    assert report.verdict.bound == ("undecided" if ran < STEPS else bound)
    assert (said in report.verdict.sentence) == (ran < STEPS)


@pytest.mark.parametrize(
    ("caller", "own", "handed_over"),
    [
        ("tf_XLAEigen/3", True, STEPS),
        ("tf_XLAPjRtCpuClient/4", True, STEPS),
        ("loader", True, 4 * STEPS),
        ("tf_XLAEigen/3", False, 3 * STEPS),
    ],
)
def test_what_a_callback_hands_over_does_not_queue(tmp_path, caller, own, handed_over):
    """`jax.pure_callback` with jitted functions in it: they run inside the program that waits for the callback."""
    trace = run_ahead(STEPS) if own else TraceBuilder()
    for number in range(3 * STEPS):
        trace.host().line(caller).event("PjRtCpuExecutable::ExecuteHelper", 333 * number + 30, 20)
    (host,) = build_run(find_all(trace.write(tmp_path / "host.xplane.pb"))).hosts
    assert host.queue.handed_over == (handed_over if host.devices else 0)
    if own:
        assert host.queue.grows is (caller == "loader")


def test_a_trace_without_such_events_says_nothing_of_a_queue(tmp_path):
    trace = TraceBuilder()
    for number in range(STEPS):
        python = trace.host().line("python")
        python.event("train_step", 1000 * number, 1000, _r=1, step_num=number)
        python.event("SyncTensorsGraph", 1000 * number, 600)
    report = analyze_run(trace.write(tmp_path / "host.xplane.pb"))
    assert "handed" not in report.verdict.sentence


@pytest.mark.parametrize(
    ("devices", "missing", "grows"), [(1, 2, False), (1, 3, True), (4, 11, False), (4, 12, True)]
)
def test_each_device_may_have_programs_on_their_way(devices, missing, grows):
    assert not Queue(400, 400 - missing, devices).grows  # too few of so many
    assert Queue(12, 12 - missing, devices).grows is grows


def test_the_samples_keep_up():
    for sample in sorted((ROOT / "sample_traces").glob("*/plugins")):
        for host in build_run(find_all(sample.parent)).hosts:
            assert host.queue.handed_over or host.devices[0].type != "CPU"
            assert not host.queue.grows, sample


def host_alone(*lengths):
    """JAX calls one function for so long (µs) each time, and the trace has no device plane."""
    trace, at = TraceBuilder(), 0
    for length in lengths:
        trace.host().line("python").event("PjitFunction(step)", at, length - 1)
        trace.host().line("python").event("PjRtCApiLoadedExecutable::Execute", at + 0.1, length - 2)
        at += length
    return trace


@pytest.mark.parametrize(
    ("lengths", "steps", "mean"),
    [
        ((4000, *5 * [10], *10 * [1000]), 10, 1.0),
        ((*4 * [10], *10 * [1000]), 10, 1.0),
        ((*3 * [10], *10 * [1000]), 13, None),  # too few to say
        ((*4 * [300], *10 * [1000]), 14, None),  # not that much shorter
        ((1000, *4 * [10], *5 * [1000], 10, *4 * [1000]), 15, None),  # they come again
    ],
)
def test_calls_that_only_fill_the_queue_of_a_device_not_shown_are_no_steps(tmp_path, lengths, steps, mean):
    """Of 100 calls 31 returned at once: the mean was 574 ms where steps take 784 ms."""
    report = analyze_run(host_alone(*lengths).write(tmp_path / "host.xplane.pb"))
    assert report.steps.count == steps
    if mean is not None:
        assert sum(row.wall_ms for row in report.steps.per_step) / steps == pytest.approx(mean, rel=0.01)
        assert [each.name for each in report.phases] == ["run-up"]


# A call of the host, a program, and a checkpoint behind all of them (µs); a host that checkpoints waits every ten steps.
CALL, PROGRAM, SAVES, EVERY = 500, 5_000, 4_000, 10


def checkpointed(*, first, steps=25):
    """JAX's host runs ahead and waits in each tenth step for all programs; recording begins in step `first` of ten.

    The programs of the steps before are still on the device then.
    """
    trace = TraceBuilder()
    python, run = trace.host().line("python"), trace.host().line("tf_XLAEigen/1")
    client = trace.host().line("tf_XLAPjRtCpuClient/2")
    at, free = 0, first * (PROGRAM - CALL) if first else 0
    for program in range(first):
        begin = free - (first - program) * PROGRAM
        if begin + PROGRAM > 0:
            start = max(begin, 0)
            client.event("ThunkExecutor::Execute (wait for completion)", start, begin + PROGRAM - start - 1)
            run.event(
                "dot.1", start, begin + PROGRAM - start - 1, hlo_op="dot.1", hlo_module="f", program_id=1
            )
    for number in range(first, first + steps):
        python.event("PjitFunction(step)", at, CALL - 100)
        start = max(free, at + 100)
        client.event("ThunkExecutor::Execute (wait for completion)", start, PROGRAM - 1)
        run.event("dot.1", start, PROGRAM - 1, hlo_op="dot.1", hlo_module="f", program_id=1)
        free, at = start + PROGRAM, at + CALL
        if number % EVERY == EVERY - 1:
            python.event("block_until_ready", at, free - at)
            at = free + SAVES
    python.event("PjitFunction(step)", at, CALL - 100)
    return trace


@pytest.mark.parametrize(("first", "left_out"), [(9, {"run-up", "run-ahead"}), (0, {"run-ahead"})])
def test_a_wait_for_steps_before_the_recording_is_in_no_step(tmp_path, first, left_out):
    """Of 21 steps of 62 ms the first waited for nine before it, and the mean was 86 ms."""
    report = analyze_run(checkpointed(first=first).write(tmp_path / "host.xplane.pb"))
    mean = sum(row.wall_ms for row in report.steps.per_step) / report.steps.count
    assert mean == pytest.approx((PROGRAM + SAVES / EVERY) / 1e3, rel=0.03)
    assert report.steps.count == 20
    assert {each.name for each in report.phases} == left_out


@pytest.mark.parametrize("more", [2, 3])
def test_a_queue_that_shrinks_up_to_the_end_leaves_no_step_out(tmp_path, more):
    """An agent's steps call programs more and more often: no step was left to look at, and the report was an error."""
    trace = TraceBuilder()
    python, client = trace.host().line("python"), trace.host().line("client")
    device = trace.host().line("device")
    for number in range(30):
        begin = 1000 * number
        python.event("train", begin, 1000, _r=1, step_num=number)
        python.event("PjitFunction(act)", begin + 5, 20)
        client.event("PjRtCpuExecutable::ExecuteHelper", begin + 10, 10)
        for program in range(1 if number < 18 else more):
            runs(trace, device, begin + 300 * program)
    report = analyze_run(trace.write(tmp_path / "host.xplane.pb"))
    assert report.steps.count == 30
    assert not report.phases
