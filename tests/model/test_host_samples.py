"""What samples of the training thread's stack say, on traces built so that the answer is known."""

import pytest

from tests.builders import US, TraceBuilder
from tpuprof.analysis.sections.host_stacks import host_stack_rows
from tpuprof.model.host.interval_pieces import MISSED_FROM_MS, RAN_FROM_SHARE
from tpuprof.model.host.op_cost import (
    OP_MS_AT_MOST,
    OPS_TO_MEASURE,
    OTHER_CODE_FROM_OP_MS,
)
from tpuprof.model.host.sample_marks import FRAMEWORK_WITHOUT_OPS_MS, SAME_CALL_WITHOUT_OPS
from tpuprof.model.host.samples import HARDLY_BEGUN_PS
from tpuprof.model.host.stacks import COMPILING, FRAMEWORK, IO, LOCK, PLAIN, SLEEP, Stack, called, family
from tpuprof.model.host.still_lines import LONGER_THAN_MS
from tpuprof.own_events import GRAPH_CUT, HOST_READ, UPLOAD

TRAIN = "train (/home/u/train.py:7)"
ADAM = "step (/venv/lib/python3.11/site-packages/torch/optim/adam.py:9)"
SAVE = "save (/venv/lib/python3.11/site-packages/torch/serialization.py:9)"
DYNAMO = "_compile (/venv/lib/python3.11/site-packages/torch/_dynamo/convert_frame.py:9)"
BRIDGE = "/venv/lib/python3.11/site-packages/torch_xla/_dynamo/dynamo_bridge.py"
JAX = "/venv/lib/python3.11/site-packages/jax/_src"
JAX_COMPILES = f"backend_compile_and_load ({JAX}/compiler.py:9)"
LOGGING = "emit (/usr/lib/python3.11/logging/__init__.py:9)"


def step(wall=40_000):
    """One step of 40 ms without device work; the graph is cut in its last 10 us."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    python.event("train_step", 0, wall, _r=1, step_num=0)
    python.event("StepMarker", wall - 10, 10)
    return trace


def parts_ms(host):
    return {name: column[0] / 1e9 for name, column in host.breakdown.parts.items() if column[0]}


def parts_ms_of_all(host):
    return {name: column.sum() / 1e9 for name, column in host.breakdown.parts.items() if column.sum()}


def stack(call="", *frames):
    return {
        "frames": ";".join(frames or (TRAIN,)),
        "call": call,
        "source": "/home/u/train.py:7",
        "user_call": call,
    }


@pytest.mark.parametrize(
    ("call", "last"),
    [
        ("time.sleep(0.03)", "sleep"),
        ("self.stream.flush()", "flush"),
        ("first(x).second(y, third(z))", "second"),
        ("print('a very long line that is cut…", "print"),
        ("a[0]", ""),
        ("(a + b)", ""),
        ("", ""),
    ],
)
def test_the_last_name_called(call, last):
    assert called(call) == last


@pytest.mark.parametrize(
    ("call", "frames", "expected"),
    [
        ("time.sleep(1)", (TRAIN,), SLEEP),
        ("await asyncio.sleep(1)", (TRAIN,), SLEEP),
        ("await asyncio.to_thread(load)", (TRAIN,), LOCK),
        ("self.stream.write(msg)", (TRAIN, LOGGING), IO),
        ("os.fsync(f)", (TRAIN,), IO),
        ("waiter.acquire()", (TRAIN, "wait (/usr/lib/python3.11/threading.py:320)"), LOCK),
        ("with lock", (TRAIN,), LOCK),
        ("queue.get()", (TRAIN,), LOCK),
        ("queue.get(timeout=left)", (TRAIN,), LOCK),
        ("queue.get(True, 5)", (TRAIN,), LOCK),
        ("await asyncio.gather(first, second)", (TRAIN,), LOCK),
        ("self._selector.select(timeout)", (TRAIN,), LOCK),
        ("select.select([pipe], [], [], 1)", (TRAIN,), LOCK),
        ("thread.join()", (TRAIN,), LOCK),
        ("worker.join(timeout)", (TRAIN,), LOCK),
        # A queue of multiprocessing reads from a pipe, which waits for the process that fills it.
        (
            "read(handle, remaining)",
            (TRAIN, "_recv (/usr/lib/python3.11/multiprocessing/connection.py:395)"),
            LOCK,
        ),
        ("read(handle, remaining)", (TRAIN, "_recv (/home/u/connection.py:395)"), IO),
        # Dicts, strings and tensors have methods of these names.
        ("counts.get(word, 0)", (TRAIN,), PLAIN),
        ("counts.get(0)", (TRAIN,), PLAIN),
        ('"…".join(words)', (TRAIN,), PLAIN),
        ('"".join(str(each) for each in words)', (TRAIN,), PLAIN),
        ("scores.gather(1, index)", (TRAIN,), PLAIN),
        ("rows.select(0, 1)", (TRAIN,), PLAIN),
        ("torch._foreach_add_(a, b)", (TRAIN, ADAM), FRAMEWORK),
        ("re.sub(a, b, c)", (TRAIN, "sub (/usr/lib/python3.11/re/__init__.py:185)"), PLAIN),
        ("next(self.gen)", (ADAM, "__enter__ (/usr/lib/python3.11/contextlib.py:137)"), FRAMEWORK),
        ("pickler.dump(x)", (TRAIN, SAVE), PLAIN),
        (
            "x.clone()",
            (TRAIN, DYNAMO, "clone (/venv/lib/python3.11/site-packages/torch/_ops.py:9)"),
            COMPILING,
        ),
        ("lock.acquire()", (TRAIN, DYNAMO), COMPILING),
        ("backend.compile(module)", (TRAIN, JAX_COMPILES), COMPILING),
        ("_xla_warm_up_cache(args)", (TRAIN, f"extract_internal ({BRIDGE}:9)"), COMPILING),
        ("_run_cached_graph(hash, args)", (TRAIN, f"optimized_mod ({BRIDGE}:9)"), FRAMEWORK),
        (
            "fn(*args)",
            (TRAIN, "_fn (/venv/lib/python3.11/site-packages/torch/_dynamo/eval_frame.py:9)"),
            FRAMEWORK,
        ),
        # A child's output is awaited; a file is read.
        ("self.stdout.read()", (TRAIN, "communicate (/usr/lib/python3.11/subprocess.py:9)"), LOCK),
        (
            "os.read(errpipe_read, 50000)",
            (TRAIN, "_execute_child (/usr/lib/python3.11/subprocess.py:9)"),
            LOCK,
        ),
        ("file.read()", (TRAIN, "read_text (/usr/lib/python3.11/pathlib.py:9)"), IO),
        # JAX's functions that look at a program dispatch nothing. Those that run one do.
        ("mlir.lower_jaxpr()", (TRAIN, f"cost_analysis ({JAX}/stages.py:9)", f"f ({JAX}/mlir.py:9)"), PLAIN),
        ("self._call(*args)", (TRAIN, f"__call__ ({JAX}/stages.py:9)"), FRAMEWORK),
        ("x * 2", (TRAIN,), PLAIN),
    ],
)
def test_what_a_stack_is_in(call, frames, expected):
    assert family(Stack(frames, call, "", "")) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [("tpuprof.step(step)", FRAMEWORK), ("tpuprofile.step(step)", PLAIN), ("step(tpuprof)", PLAIN)],
)
def test_what_tpuprof_itself_does_is_no_work_of_the_program(call, expected):
    assert family(Stack((TRAIN,), call, "train.py:7", call)) == expected


def test_tracing_sleep_and_numpy_are_told_apart_with_their_lines(read):
    """20 ms tracing (10 ops a ms), 10 ms sleep, 10 ms numpy: the changes between samples say where each ends."""
    trace = step()
    trace.sampled(0, 15_000, ops=150, stack=1, **stack("y * 2"))
    trace.sampled(15_000, 10_000, ops=50, cpu=5_000, stack=2, **stack("time.sleep(0.01)"))
    trace.sampled(25_000, 10_000, cpu=5_000, stack=3, **stack("np.sort(a)"))
    trace.sampled(35_000, 5_000, stack=3)
    host = read(trace)
    assert parts_ms(host) == {
        "tracing": pytest.approx(20.01, abs=0.02),
        "host:sleep": pytest.approx(10),
        "host:python": pytest.approx(10, abs=0.02),
    }
    rows = {row.part: row for row in host_stack_rows([host]) if row.part.startswith("host:")}
    assert rows["host:sleep"].user_call == "time.sleep(0.01)"
    assert rows["host:sleep"].exposed_ms_per_step == pytest.approx(10)
    assert rows["host:python"].user_call == "np.sort(a)"


def test_a_thread_off_the_cpu_waits_for_the_gil_where_another_python_thread_burns_it(read):
    trace = step().sampled(0, 40_000, cpu=4_000, others=36_000, **stack("y * 2"))
    assert parts_ms(read(trace))["host:gil"] == pytest.approx(36, abs=0.02)


def test_a_wait_for_a_cpu_is_split_between_two_threads_that_take_turns(read):
    """Of 20 ms ready to run, three quarters go to the thread that ran three quarters of the time."""
    trace = step().sampled(0, 40_000, cpu=4_000, ready=20_000, others=12_000, **stack("y * 2"))
    assert parts_ms(read(trace))["host:gil"] == pytest.approx(16 + 15, abs=0.02)


def test_a_busy_machine_alone_is_no_wait_for_the_gil(read):
    trace = step().sampled(0, 40_000, cpu=4_000, ready=36_000, others=0, **stack("y * 2"))
    assert "host:gil" not in parts_ms(read(trace))


def test_a_block_without_a_reason_is_a_wait(read):
    trace = step().sampled(0, 40_000, cpu=4_000, others=0, **stack("ext.fetch(x)"))
    assert parts_ms(read(trace))["host:wait"] == pytest.approx(36, abs=0.02)


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (DYNAMO, "torch.compile traces for it at /home/u/train.py:7 (fast(x))"),
        (JAX_COMPILES, "The call that compiles is at /home/u/train.py:7 (fast(x))"),
    ],
)
def test_the_call_that_makes_a_program_is_named(analyze, frame, said):
    trace = step()
    for row in range(4):
        trace.sampled(10_000 * row, 10_000, stack=1, **stack("fast(x)", TRAIN, frame) if not row else {})
    assert said in analyze(trace).verdict.sentence


@pytest.mark.parametrize(("frame", "word"), [(DYNAMO, "compile"), (ADAM, "host")])
def test_what_torch_compile_does_to_make_a_program_is_compiling(analyze, frame, word):
    """Three samples of 10 ms without an op lie in one call: of dynamo, or of a framework that works on host tensors."""
    trace = step()
    for row in range(4):
        trace.sampled(10_000 * row, 10_000, stack=1, **stack("fast(x)", TRAIN, frame) if not row else {})
    report = analyze(trace)
    assert report.verdict.bound == word
    assert ("torch.compile traces for it at /home/u/train.py:7 (fast(x))" in report.verdict.sentence) is (
        word == "compile"
    )


def test_a_block_in_backward_while_ops_are_traced_is_tracing(read):
    engine = "_engine_run_backward (/venv/lib/python3.11/site-packages/torch/autograd/graph.py:8)"
    trace = step().sampled(0, 40_000, cpu=0, ops=300, **stack("run_backward(t)", TRAIN, engine))
    assert parts_ms(read(trace)) == {"tracing": 40.0}


@pytest.mark.parametrize(("late", "unknown"), [(-1, 0), (1, 7)])
def test_frames_after_missed_samples_do_not_stand_for_what_ran_before(read, late, unknown):
    """20 intervals show that an op takes 0.1 ms; then one from another line has ops for half of its time or less."""
    length = MISSED_FROM_MS * 1_000 + late
    trace = step(40_000)
    for row in range(20):
        trace.sampled(1_000 * row, 1_000, ops=10, stack=1, **(stack("y * 2", TRAIN, ADAM) if not row else {}))
    trace.sampled(20_000, length, ops=74, stack=2, **stack("loss.backward()", TRAIN, ADAM))
    found = parts_ms(read(trace))
    assert found.get("host_other", 0) == pytest.approx(40 - 0.01 - 20 - length / 1_000 + unknown, abs=0.7)


@pytest.mark.parametrize(("length", "part"), [(0.9, "tracing"), (1.1, "host:python")])
def test_framework_frames_without_ops_trace_for_a_while_only(read, length, part):
    wall = FRAMEWORK_WITHOUT_OPS_MS * 1_000 * length
    trace = step(wall).sampled(0, wall, **stack("f(x)", TRAIN, ADAM))
    assert parts_ms(read(trace))[part] == pytest.approx(wall / 1_000, abs=0.02)


@pytest.mark.parametrize(
    ("again", "part"), [(SAME_CALL_WITHOUT_OPS - 1, "tracing"), (SAME_CALL_WITHOUT_OPS, "host:python")]
)
def test_a_framework_call_that_lasts_without_ops_works_on_host_tensors(read, again, part):
    """Each call is shorter than what frames without ops may trace; seen often enough, it traces nothing."""
    wall = 15_000 * again
    trace = step(wall)
    for call in range(again):
        at = 15_000 * call
        trace.sampled(at, 5_000, stack=1, **(stack("_upsample(x)", TRAIN, ADAM) if not call else {}))
        trace.sampled(at + 5_000, 5_000, stack=1)
        trace.sampled(
            at + 10_000, 5_000, ops=100, stack=2, **(stack("net(x)", TRAIN, ADAM) if not call else {})
        )
    found = parts_ms(read(trace))
    assert found.get("host:python", 0) == pytest.approx(10.0 * again * (part == "host:python"), abs=0.05)


@pytest.mark.parametrize(
    ("cpu", "ready", "silent"), [(5_000, 0, True), (0, 5_000, False), (1_000, 4_000, True)]
)
def test_a_framework_call_that_gets_no_cpu_may_trace(read, cpu, ready, silent):
    """On a machine whose CPUs are taken, a call of ops lasts from sample to sample without one: it does not run."""
    trace = step(60_000).sampled(0, 20_000, ops=400, stack=1, **stack("net(x)", TRAIN, ADAM))
    for row in range(8):
        words = stack("loss.backward()", TRAIN, ADAM) if not row else {}
        trace.sampled(20_000 + 5_000 * row, 5_000, cpu=cpu, ready=ready, stack=2, asleep=False, **words)
    found = parts_ms(read(trace))
    assert found.get("host:python", 0) == pytest.approx(40.0 * silent, abs=0.1)


def test_a_disk_write_on_and_off_the_cpu_is_io(read):
    trace = step().sampled(0, 20_000, cpu=9_000, stack=1, **stack("f.write(data)"))
    trace.sampled(20_000, 20_000, cpu=2_000, stack=1)
    assert parts_ms(read(trace))["host:io"] == pytest.approx(40, abs=0.02)


def test_a_wait_for_a_cpu_that_is_counted_late_belongs_to_the_sample_before(read):
    trace = step().sampled(0, 20_000, cpu=5_000, ops=100, stack=1, **stack("y * 2"))
    line = trace.host().line("tpuprof-sampler")
    facts = {"stack": 1, "gap_us": 20_000, "ops": 100, "cpu_us": 20_000, "wait_us": 15_000, "python_us": 0}
    line.event("tpuprof.sample", 40_000, 0, **facts)
    assert parts_ms(read(trace)) == {"tracing": 40.0}


def test_without_samples_it_is_not_called_tracing(analyze):
    report = analyze(step())
    assert set(report.breakdown) >= {"host_other"}
    assert report.breakdown["host_other"].share == pytest.approx(1, abs=0.001)
    assert report.verdict.bound == "undecided"
    assert "traces or runs other Python" in report.verdict.sentence
    assert report.host_stacks == []


def test_the_verdict_names_what_the_host_does_and_where(analyze):
    trace = step().sampled(0, 40_000, cpu=400, **stack("time.sleep(0.04)"))
    report = analyze(trace)
    assert report.verdict.bound == "host"
    assert (
        "The host sleeps at /home/u/train.py:7 (time.sleep(0.04)), 39.6 ms of 40.0 ms."
        in report.verdict.sentence
    )


@pytest.mark.parametrize(("ran", "python"), [(RAN_FROM_SHARE - 0.01, 2.8), (RAN_FROM_SHARE, 20.0)])
def test_a_sleep_that_waits_for_a_cpu_as_it_wakes_is_a_sleep(read, ran, python):
    """On a busy machine a sleeper gets no CPU for 20 ms: no other code runs, unless its CPU time says so."""
    trace = step().sampled(0, 20_000, cpu=0, stack=1, **stack("time.sleep(0.001)"))
    trace.sampled(20_000, 20_000, cpu=int(20_000 * ran), ready=int(20_000 * (1 - ran)), stack=1)
    found = parts_ms(read(trace))
    assert found.get("host:python", 0.0) == pytest.approx(python, abs=0.02)
    assert found["host:sleep"] == pytest.approx(40 - python, abs=0.02)


def test_a_finding_points_at_stretches_of_what_its_fix_removes(analyze):
    """The step sleeps for 30 ms and reads a value for 2 ms: evidence of the sleep shows the sleep, not the read."""
    trace = step()
    trace.sampled(0, 30_000, cpu=400, stack=1, **stack("time.sleep(0.03)"))
    trace.sampled(30_000, 10_000, ops=100, stack=2, **stack("y * 2"))
    trace.host().line("python").event("TransferFromDevice", 37_000, 2_000)
    found = next(each for each in analyze(trace).findings if each.rule == "host-blocked")
    placed = [each for each in found.evidence if each.start_ns is not None]
    assert [(each.start_ns, each.value) for each in placed] == [(400_000, pytest.approx(29.6))]
    # The trace has no device plane: whether a device idles is unknown.
    assert placed[0].text == "a long stretch: the training thread sleeps"


@pytest.mark.parametrize(("call", "part"), [("engine.run(x)", "compile"), ("time.sleep(0.03)", "host:sleep")])
def test_a_wait_beside_another_threads_compile_is_a_wait_for_it(analyze, call, part):
    """The thread is off the CPU for all of the step while another compiles: a sleep takes as long without that."""
    trace = step().sampled(0, 40_000, cpu=400, others=0, **stack(call))
    trace.host().line("compiler").event("PjRtComputationClient::Compile", 0, 40_000)
    report = analyze(trace)
    rows = {row.part: row.exposed_ms_per_step for row in report.host_stacks}
    assert max(rows, key=rows.get) == part
    assert "host:wait" not in rows
    blocked = next(each for each in report.findings if each.rule == "host-blocked")
    assert blocked.status == ("failed" if part == "host:sleep" else "passed")


def test_the_thread_that_holds_the_lock_is_named_with_its_line(analyze):
    trace = step()
    trace.sampled(0, 20_000, cpu=4_000, others=16_000, stack=1, **stack("y * 2"))
    line = trace.host().line("tpuprof-sampler")
    holder = {
        "frames": "hog (/home/u/logs.py:9)",
        "call": "json.dumps(rows)",
        "source": "/home/u/logs.py:9",
        "user_call": "json.dumps(rows)",
    }
    line.event("tpuprof.holder", 20_500, 0, stack=2, **holder)
    facts = {"stack": 1, "gap_us": 20_000, "ops": 0, "cpu_us": 4_000, "wait_us": 0, "python_us": 16_000}
    line.event("tpuprof.sample", 40_000, 0, holder=2, **facts)
    report = analyze(trace)
    assert "That thread is at /home/u/logs.py:9 (json.dumps(rows))." in report.verdict.sentence
    waits = [row for row in report.host_stacks if row.part == "host:gil"]
    assert {row.holder for row in waits} == {"/home/u/logs.py:9 (json.dumps(rows))"}
    assert not [row for row in report.host_stacks if row.part != "host:gil" and row.holder]
    finding = next(each for each in report.findings if each.rule == "host-blocked")
    assert any("/home/u/logs.py:9" in each.text for each in finding.evidence)
    # The trace has no device plane: whether a device idles is unknown.
    assert "device idles" not in finding.title


@pytest.mark.parametrize(
    ("call", "named"),
    [("out.write(text)", "logs.py:8 (encode(0))"), ("compress(text)", "logs.py:9 (compress(text))")],
)
def test_the_line_that_held_the_lock_is_not_the_one_that_lets_go_of_it(analyze, call, named):
    """Two samples in a line's calls, each with a stack of its own, and one that lasts longer when the lock is let go."""
    trace = step()
    line = trace.host().line("tpuprof-sampler")
    trace.sampled(0, 1_000, stack=1, **stack("y * 2"))
    begin = 1_000
    for number, (length, at, does) in enumerate(
        [(8_000, 8, "encode(0)"), (7_000, 8, "encode(1)"), (20_000, 9, call)]
    ):
        words = {"call": does, "source": f"/home/u/logs.py:{at}", "user_call": does}
        frames = f"hog (/home/u/logs.py:{at});inner (/home/u/logs.py:{number})"
        line.event("tpuprof.holder", begin + 500, 0, stack=2 + number, frames=frames, **words)
        facts = {
            "stack": 1,
            "gap_us": length,
            "ops": 0,
            "cpu_us": 500,
            "wait_us": 0,
            "python_us": length - 500,
        }
        begin += length
        line.event("tpuprof.sample", begin, 0, holder=2 + number, **facts)
    assert f"That thread is at /home/u/{named}." in analyze(trace).verdict.sentence


def test_the_lock_of_a_trace_without_holders_has_no_line(analyze):
    trace = step().sampled(0, 40_000, cpu=4_000, others=36_000, **stack("y * 2"))
    report = analyze(trace)
    assert "Python's lock" in report.verdict.sentence
    assert "That thread" not in report.verdict.sentence


@pytest.mark.parametrize(
    "loader", ["torch/utils/data/dataloader.py", "torch_xla/distributed/parallel_loader.py"]
)
def test_a_wait_in_a_loader_that_began_before_the_capture_is_a_wait_for_input(read, loader):
    frames = f"{TRAIN};next (/venv/lib/python3.11/site-packages/{loader}:9)"
    words = {"frames": frames, "source": "/home/u/train.py:7", "user_call": "for x in loader:"}
    trace = step().sampled(0, 30_000, cpu=0, call="self._ready_cv.wait()", stack=1, **words)
    trace.sampled(30_000, 10_000, ops=200, stack=2, **stack("y * 2"))
    host = read(trace)
    assert parts_ms(host)["input_wait"] == pytest.approx(30, abs=0.02)
    rows = host_stack_rows([host])
    assert [row.exposed_ms_per_step for row in rows if row.part == "input_wait"] == [
        pytest.approx(30, abs=0.02)
    ]


def test_time_between_events_of_a_profile_without_markers_is_sampled_too(analyze):
    trace = TraceBuilder()
    python = trace.host().line("python")
    for begin in range(0, 240_000, 40_000):
        python.event("StepMarker", begin, 2_000)
        python.event("SyncTensorsGraph", begin, 1_900)
        python.event("RunPostOrder", begin, 100)
        python.event("ScheduleSyncTensorsGraph", begin + 200, 1_000)
        trace.sampled(begin + 2_000, 38_000, cpu=100, stack=1, **stack("time.sleep(0.04)"))
    report = analyze(trace)
    assert report.verdict.bound == "host"
    assert "sleeps at /home/u/train.py:7" in report.verdict.sentence


def at_line(number, call):
    return {**stack(call), "source": f"/home/u/train.py:{number}"}


@pytest.mark.parametrize(("alone", "tracing"), [(0, 5.0), (1, 10.0)])
def test_ops_beside_other_code_take_what_ops_take(read, alone, tracing):
    """Samples of 20 ms with 50 ops each, in two lines of the user's: 0.4 ms per op, so other code is between them."""
    trace = step(40_000 + alone * 20_000)
    for row in range(2):
        trace.sampled(20_000 * row, 20_000, ops=50, stack=1 + row, **at_line(row, "numbers.normal()"))
    if alone:
        trace.sampled(40_000, 20_000, ops=0, stack=3, **at_line(3, "numbers.normal()"))
    # The middle of what ops take is 0.05 ms. Where samples show other code alone, twice that is taken at most.
    assert parts_ms(read(trace))["tracing"] == pytest.approx(tracing, rel=0.01)


@pytest.mark.parametrize(
    ("op_ms", "tracing", "python"),
    [
        (0.99 * OP_MS_AT_MOST, 40, 0),
        (1.01 * OP_MS_AT_MOST, 40 / 1.01 / 2, 0),
        (0.99 * OTHER_CODE_FROM_OP_MS, 40 / 0.99 / 3, 0),
        (1.01 * OTHER_CODE_FROM_OP_MS, 40 / 1.01 / 3, 40 - 40 / 1.01 / 3),
    ],
)
def test_what_ops_take_too_long_for_is_other_code_or_unknown(read, op_ms, tracing, python):
    """Each interval lasts a step and ends in the user's own lines: nothing in the capture shows what an op takes."""
    trace = step()
    for row in range(2):
        ops = round(20 / op_ms)
        trace.sampled(20_000 * row, 20_000, ops=ops, stack=1 + row, **at_line(row, "np.sort(a)"))
    found = parts_ms(read(trace))
    assert found["tracing"] == pytest.approx(tracing, rel=0.02)
    assert found.get("host:python", 0) == pytest.approx(python, rel=0.02)
    assert found.get("host_other", 0) == pytest.approx(40 - tracing - python, abs=0.5)


def test_ops_that_wait_for_a_cpu_are_no_other_code(read):
    """0.2 ms per op by the clock, a quarter of it on a CPU: other programs have the machine."""
    trace = step()
    for row in range(2):
        trace.sampled(
            20_000 * row, 20_000, ops=100, cpu=5_000, ready=15_000, stack=1 + row, **at_line(row, "y @ w")
        )
    assert parts_ms(read(trace)) == {"tracing": 40.0}


@pytest.mark.parametrize(
    ("cut", "part"), [("", "tracing"), (GRAPH_CUT, "host:python"), (HOST_READ, "host:python")]
)
def test_a_line_at_both_ends_of_an_interval_with_a_graph_cut_may_be_seen_in_two_steps(read, cut, part):
    """Where nothing but reads cuts the graph, as in inference, they are its cuts."""
    trace = step(60_000).sampled(0, 20_000, ops=0, stack=1, **at_line(3, "numbers.normal()"))
    for row in range(4):
        begin = 20_000 + 10_000 * row
        if cut:
            trace.host().line("python").event(cut, begin + 5_000, 100, grad=1, source="t.py:9")
        trace.sampled(begin, 10_000, ops=OPS_TO_MEASURE, stack=2, **at_line(7, "np.sort(a)"))
    assert parts_ms(read(trace))[part] >= 34.9


@pytest.mark.parametrize(("reads", "backward", "python"), [(0, 0, 0.0), (1, 0, 29.6), (1, 300, 37.9)])
def test_a_line_that_is_left_for_a_read_is_no_line_that_traces(read, reads, backward, python):
    """An environment in NumPy is called after each read of an action: 26 ops of the policy lie between its samples.

    What an op takes the backward pass shows best, in one interval: 300 ops in 6 ms.
    """
    trace = step(66_000).sampled(0, 20_000, ops=0, stack=1, **at_line(3, "numbers.normal()"))
    own = trace.host().line("python")
    own.event(GRAPH_CUT, 65_980, 5, grad=1, source="t.py:9")
    for row in range(4):
        begin = 20_000 + 10_000 * row
        for _ in range(reads):
            own.event(HOST_READ, begin + 5_000, 100, source="t.py:8")
        trace.sampled(begin, 10_000, ops=26, stack=2, **at_line(7, "np.tanh(a @ b)"))
    trace.sampled(60_000, 6_000, ops=backward, stack=3, **at_line(8, "loss.backward()"))
    rows = [row for row in host_stack_rows([read(trace)]) if row.source.endswith(":7")]
    found = sum(row.exposed_ms_per_step for row in rows if row.part == "host:python")
    assert found == pytest.approx(python, abs=0.6)


def reading(event):
    """Steps of 10 ms with 13 ops: 6 ms of other code at line 7, tracing, and a read of 2 ms, in which a sample comes."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for row in range(8):
        begin = 10_000 * row
        python.event("train_step", begin, 10_000, _r=1, step_num=row)
        python.event("SyncTensorsGraph", begin + 7_800, 100)
        python.event(event, begin + 8_000, 1_900, source="t.py:9")
        trace.sampled(begin, 3_000, ops=0, stack=1, asleep=False, **at_line(7, "words.sort()"))
        trace.sampled(begin + 3_000, 6_000, ops=13, stack=2, asleep=False, **at_line(9, "y.cpu()"))
        trace.sampled(begin + 9_000, 1_000, ops=0, stack=1, asleep=False, **at_line(7, "words.sort()"))
    return trace


@pytest.mark.parametrize("event", [HOST_READ, UPLOAD])
def test_what_ran_before_a_read_is_no_work_of_the_line_that_reads(read, event):
    """The sample comes in the call, which has an event of its own: other code ran where the thread was before."""
    lines = {row.source for row in host_stack_rows([read(reading(event))])}
    assert "/home/u/train.py:7" in lines and "/home/u/train.py:9" not in lines


def resonant(count, *, alone=0, ops=175):
    """So many steps of 17 ms, each with one sample, which the encoder of `train.py:7` lets in as it gives the lock back.

    Before them lies one interval of `alone` (us) without an op that ends there too, if any.
    """
    frames = (TRAIN, "iterencode (/usr/lib/python3.11/json/encoder.py:258)")
    trace = step(alone + 17_000 * count)
    if alone:
        trace.sampled(0, alone, ops=0, stack=1, **stack("json.dumps(a)", *frames))
    for row in range(count):
        begin = alone + 17_000 * row
        trace.host().line("python").event("tpuprof.graph_cut", begin + 7_000, 100, grad=1, source="t.py:9")
        trace.sampled(begin, 17_000, ops=ops, stack=1, **stack("json.dumps(a)", *frames))
    return trace


def test_code_that_keeps_the_lock_once_per_step_is_not_taken_for_tracing(read):
    """An encoder of 10 ms holds the lock: the sampler, asked for every 10 ms, is let in as it ends, and nowhere else."""
    found = parts_ms(read(resonant(10, alone=10_000)))
    assert found["host:python"] == pytest.approx(10 + 10 * 10, rel=0.01)
    assert found["tracing"] == pytest.approx(10 * 7, rel=0.01)


def test_where_nothing_shows_how_long_such_code_takes_the_rest_is_unknown(read):
    found = parts_ms(read(resonant(10)))
    assert "host:python" not in found
    assert found["tracing"] == pytest.approx(10 * 8.75, rel=0.1)
    assert found["host_other"] == pytest.approx(10 * (17 - 8.75), rel=0.1)


def test_what_was_traced_in_such_a_step_has_no_line(analyze):
    sentence = analyze(resonant(10, alone=2_000, ops=300)).verdict.sentence
    assert sentence.startswith("Tracing-bound") and "train.py" not in sentence


@pytest.mark.parametrize(("ops", "part"), [(OPS_TO_MEASURE, "tracing"), (OPS_TO_MEASURE - 1, "host:python")])
def test_a_line_of_the_users_that_calls_ops_again_and_again_traces(read, ops, part):
    trace = step(60_000).sampled(0, 20_000, ops=0, stack=1, **at_line(3, "numbers.normal()"))
    for row in range(4):
        trace.sampled(20_000 + 10_000 * row, 10_000, ops=ops, stack=2, **at_line(7, "b.mul_(0.9)"))
    assert parts_ms(read(trace))[part] >= 39.9


@pytest.mark.parametrize(("late", "part"), [(-1, "tracing"), (0, "host:python")])
def test_a_line_that_was_seen_once_per_step_need_not_be_what_called_its_ops(read, late, part):
    length = MISSED_FROM_MS * 1_000 + late
    trace = step(60_000).sampled(0, 60_000 - 3 * length, stack=1, **at_line(3, "numbers.normal()"))
    for row in range(3):
        begin = 60_000 - (3 - row) * length
        trace.sampled(begin, length, ops=OPS_TO_MEASURE, stack=2, **at_line(7, "encode(text)"))
    assert parts_ms(read(trace))[part] >= 39.9


@pytest.mark.parametrize(("at", "named"), [(7, True), (8, False)])
def test_the_line_that_traces_most_is_named(analyze, at, named):
    """Half of the tracing is at line 7, or each quarter at a line of its own."""
    trace = step()
    for number in range(4):
        line = {"source": f"/home/u/train.py:{at + number if number else 7}"} if not named else {}
        words = {**stack("opt.step()", f"step (/home/u/train.py:{number})"), **line}
        trace.sampled(number * 10_000, 10_000, ops=100, stack=number, **words)
    sentence = analyze(trace).verdict.sentence
    assert sentence.startswith("Tracing-bound")
    assert ("Most of it is at /home/u/train.py:7 (opt.step())." in sentence) is named


@pytest.mark.parametrize(
    ("event", "facts", "call", "said"),
    [
        (
            "tpuprof.gc",
            {"tpuprof": "gc"},
            "gc.collect()",
            "The host collects garbage at /home/u/train.py:7 (gc.collect())",
        ),
        (
            "load batch",
            {"tpuprof": "annotation", "traced_ops": 0},
            "time.sleep(0.03)",
            "The host is in the annotation 'load batch' at /home/u/train.py:7 (time.sleep(0.03))",
        ),
    ],
)
def test_collections_and_annotations_in_every_step_are_a_finding_with_their_line(
    analyze, event, facts, call, said
):
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(4):
        at = number * 40_000
        python.event("train_step", at, 40_000, _r=1, step_num=number)
        python.event(event, at + 5_000, 30_000, **facts)
        python.event("StepMarker", at + 39_990, 10)
        words = stack(call) if not number else {}
        trace.sampled(at, 5_000, ops=50, stack=1, **(stack("y * 2") if not number else {}))
        trace.sampled(at + 5_000, 30_000, stack=2, cpu=0 if "sleep" in call else None, **words)
        trace.sampled(at + 35_000, 5_000, ops=50, stack=1)
    report = analyze(trace)
    assert report.verdict.sentence.startswith("Held back by ")
    assert f"It is at /home/u/train.py:7 ({call}), 30.0 ms of 40.0 ms." in report.verdict.sentence
    first = report.findings[0]
    assert (first.rule, first.status) == ("host-blocked", "failed")
    assert [each.step for each in first.evidence if each.start_ns is not None] == [0, 1, 2]
    assert first.title.startswith(said)


@pytest.mark.parametrize(
    ("event", "facts", "part", "lines"),
    [
        ("tpuprof.gc", {"tpuprof": "gc"}, "user:gc", {"/home/u/train.py:7"}),
        ("load", {"tpuprof": "annotation", "traced_ops": 0}, "user:load", {"/home/u/train.py:7"}),
        # A call of the framework that a sample comes in says nothing of the time before.
        ("PjitFunction(step)", {}, "user:gc", set()),
    ],
)
def test_samples_in_collections_and_annotations_of_jax_show_their_line(read, event, facts, part, lines):
    trace = TraceBuilder()
    python = trace.host().line("python")
    for number in range(4):
        at = number * 40_000
        python.event("train", at, 40_000, _r=1, step_num=number)
        called_by(trace, at, 1_000)
        python.event(event, at + 2_000, 36_000, **facts)
        words = stack("gc.collect()") if not number else {}
        trace.sampled(at - 20_000 * bool(number), 20_000 * (1 + bool(number)), stack=1, **words)
    rows = host_stack_rows([read(trace)])
    assert {row.source for row in rows if row.part == part} == lines


def called_by(trace, at, length, name="PjitFunction(update)"):
    """A call of a jitted function on the training thread."""
    trace.host().line("python").event(name, at, length)


def test_between_two_calls_of_jax_the_line_of_the_sample_before_holds(read):
    """20 ms of the user's own code, seen once in the middle; the next sample comes inside a call."""
    trace = TraceBuilder()
    trace.host().line("python").event("train", 0, 21_000, _r=1, step_num=0)
    called_by(trace, 0, 500)
    called_by(trace, 20_000, 1_000)
    trace.sampled(0, 10_000, stack=1, **stack("line.split()"))
    trace.sampled(10_000, 10_500, stack=2, **{**stack("update(w, x)"), "source": "/home/u/train.py:9"})
    host = read(trace)
    rows = {
        row.source: row.exposed_ms_per_step for row in host_stack_rows([host]) if row.part == "host:python"
    }
    assert rows == {"/home/u/train.py:7": pytest.approx(19.5, abs=0.1)}


def test_between_two_calls_of_jax_that_nobody_looked_at_no_line_holds(read):
    trace = TraceBuilder()
    trace.host().line("python").event("train", 0, 21_000, _r=1, step_num=0)
    called_by(trace, 0, 500)
    called_by(trace, 20_000, 1_000)
    trace.sampled(0, 400, stack=1, **stack("update(w, x)"))
    trace.sampled(400, 20_100, stack=1, **stack("update(w, x)"))
    host = read(trace)
    assert parts_ms(host)["host:python"] == pytest.approx(19.5, abs=0.2)
    assert not [row for row in host_stack_rows([host]) if row.part == "host:python" and row.source]


def after_a_call(call, since):
    """A loop's 10 ms of Python, seen once in the middle; the next sample comes `since` us after a call's event."""
    trace = TraceBuilder()
    trace.host().line("python").event("train", 0, 12_000 + since, _r=1, step_num=0)
    called_by(trace, 0, 500)
    called_by(trace, 10_500, 500)
    trace.sampled(0, 5_000, stack=1, **stack("line.split()"))
    words = {**stack(call), "source": "/home/u/train.py:9"}
    trace.sampled(5_000, 6_000 + since, stack=2, **words)
    return trace


@pytest.mark.parametrize(
    "frames", [(), (TRAIN, "__float__ (/venv/lib/python3.11/site-packages/jax/_src/array.py:9)")]
)
def test_a_wait_before_a_call_of_jax_that_waits_too_is_the_other_lines(read, frames):
    """The call's own time is that of its event."""
    trace = TraceBuilder()
    trace.host().line("python").event("train", 0, 14_000, _r=1, step_num=0)
    called_by(trace, 0, 500)
    called_by(trace, 9_000, 5_000)
    trace.sampled(0, 5_000, cpu=600, stack=1, asleep=True, **stack("batches.get()"))
    called = {**stack("update(w, x)", *frames), "source": "/home/u/train.py:9"}
    trace.sampled(5_000, 8_000, cpu=0, stack=2, asleep=True, **called)
    found = parts_ms(read(trace))
    assert found["host:lock"] == pytest.approx(8.4, abs=0.2)
    assert found["dispatch"] == pytest.approx(5.5, abs=0.2)


def python_lines(host):
    return {row.source for row in host_stack_rows([host]) if row.part == "host:python"}


@pytest.mark.parametrize("call", ["loss", "loss = …", "np.asarray(action)"])
def test_a_line_that_stores_or_reads_what_a_call_of_jax_gave_did_not_run_before_it(read, call):
    host = read(after_a_call(call, HARDLY_BEGUN_PS / US - 100))
    assert python_lines(host) == {"/home/u/train.py:7"}


@pytest.mark.parametrize(
    ("call", "since"),
    [("tokenize(rows)", 100), ("weights[0]", 100), ("np.asarray(rows)", HARDLY_BEGUN_PS / US + 100)],
)
def test_another_line_after_a_call_of_jax_holds_what_ran_since_the_sample_before(read, call, since):
    host = read(after_a_call(call, since))
    assert "/home/u/train.py:9" in python_lines(host)


def one_call(cpu, others, inside=0):
    """A call of a jitted function for 10 ms, with a sample as it ends; `cpu` and `others` are us of this and another thread.

    `inside` is how much of it is in the runtime (us), at its end.
    """
    trace = TraceBuilder()
    trace.host().line("python").event("train", 0, 10_000, _r=1, step_num=0)
    called_by(trace, 0, 10_000)
    if inside:
        called_by(trace, 10_000 - inside, inside, "PjRtCpuExecutable::ExecuteHelper")
    trace.sampled(0, 9_990, cpu=cpu, others=others, stack=1, **stack("update(w, x)"))
    return trace


def test_a_call_of_jax_that_waits_for_pythons_lock_waits_for_the_thread_that_has_it(read):
    found = parts_ms(read(one_call(cpu=1_000, others=9_000)))
    assert found["host:gil"] == pytest.approx(9, abs=0.1)
    assert found["dispatch"] == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    "given",
    [(1_000, 0), (1_000, 4_000), (9_990, 9_990), (1_000, 9_000, 9_500)],
    ids=["no other thread runs Python", "too little of it", "the call works", "it is in the runtime"],
)
def test_other_calls_of_jax_are_dispatch(read, given):
    found = parts_ms(read(one_call(*given)))
    assert "host:gil" not in found
    assert found["dispatch"] == pytest.approx(10, abs=0.1)


@pytest.mark.parametrize(("others", "waits"), [(9_000, True), (0, False)])
def test_a_call_of_jax_that_hands_an_array_over_waits_for_pythons_lock(read, others, waits):
    """A batch of 8 KiB took 5 to 10 ms, while a thread tokenized: "the device idles ... waiting for data"."""
    trace = one_call(1_000, others)
    called_by(trace, 50, 9_900, "DevicePut")
    found = parts_ms(read(trace))
    assert found.get("host:gil", 0.0) == pytest.approx(9 if waits else 0, abs=0.2)
    assert found["host_to_device"] == pytest.approx(1 if waits else 9.9, abs=0.2)


def of_lines(report, part):
    """Exposed and hidden ms per step of each call in a part."""
    found = {}
    for row in report.host_stacks:
        if row.part == part:
            ms = row.exposed_ms_per_step + row.hidden_ms_per_step
            found[row.user_call] = found.get(row.user_call, 0.0) + ms
    return {call: pytest.approx(ms, abs=0.05) for call, ms in found.items()}


def test_a_wait_belongs_to_the_line_in_which_the_thread_slept(analyze):
    """It waits in `fetch(x)`, which nobody knows to block, and computes in `rank(x)` thereafter."""
    trace = step()
    trace.sampled(0, 10_000, cpu=200, stack=1, asleep=True, **stack("fetch(x)"))
    trace.sampled(10_000, 10_000, cpu=6_000, stack=2, asleep=False, **stack("rank(x)"))
    trace.sampled(20_000, 10_000, cpu=10_000, stack=2, asleep=False)
    trace.sampled(30_000, 10_000, cpu=7_000, stack=1, asleep=True)
    report = analyze(trace)
    assert of_lines(report, "host:wait") == {"fetch(x)": 9.8 + 4 + 3}
    assert of_lines(report, "host:python")["rank(x)"] == 6 + 10 + 7


@pytest.mark.parametrize(
    ("call", "again", "others", "part"),
    [
        ("time.sleep(0.0002)", True, 0, "host:sleep"),
        ("batches.get()", True, 0, "host:lock"),
        # Another thread of the program held the lock meanwhile.
        ("time.sleep(0.0002)", True, 9_000, "host:gil"),
        # It was at another line before, or nothing is known to block there.
        ("time.sleep(0.0002)", False, 0, "host:wait"),
        ("fetch(x)", True, 0, "host:wait"),
    ],
)
def test_short_sleeps_of_one_line_are_that_line_s_though_no_look_finds_it_asleep(
    analyze, call, again, others, part
):
    trace = step()
    trace.sampled(0, 10_000, stack=1, asleep=False, **stack(call if again else "rank(x)"))
    words = {} if again else stack(call)
    trace.sampled(10_000, 10_000, cpu=1_000, others=others, stack=1 if again else 2, asleep=False, **words)
    report = analyze(trace)
    waits = {row.part for row in report.host_stacks if row.part != "host:python"}
    shown = {name for name in report.breakdown if name.startswith("host:") and name != "host:python"}
    assert part in waits | shown
    assert not (waits | shown) - {part}


def test_a_wait_between_two_samples_of_a_thread_that_runs_has_no_line(analyze):
    trace = step()
    trace.sampled(0, 20_000, stack=1, asleep=False, **stack("pack(x)"))
    trace.sampled(20_000, 20_000, cpu=12_000, stack=2, asleep=False, **stack("rank(x)"))
    report = analyze(trace)
    assert "rank(x)" not in of_lines(report, "host:wait")
    assert of_lines(report, "host:python")["rank(x)"] == 12


ENCODE = "encode (/home/u/train.py:7)"
FORWARD = "forward (/venv/lib/python3.11/site-packages/torch/nn/module.py:3)"


def rounds(silent, *, traces=False, length=5_000, ready=0):
    """Intervals as long as a step: each holds the ops of one, and eight of ten end in the program's own `encode`.

    `silent` intervals of `length` us without an op end there; with `traces`, one that begins and ends there has ops.
    """
    trace = step(wall=200_000)
    for row in range(10):
        inside = row in (2, 6)
        words = stack("net(x)", TRAIN, FORWARD) if inside else stack("max(words)", TRAIN, ENCODE)
        # Not all at the same op of the step.
        trace.sampled(
            row * 10_000, 10_000, ops=38 + 7 * row % 11, stack=2 if inside else 1, asleep=False, **words
        )
        trace.host().line("python").event(GRAPH_CUT, row * 10_000 + 5_000, 10)
    for row in range(silent):
        at, cpu = 100_000 + row * length, length - ready
        trace.sampled(at, length, ops=0, cpu=cpu, ready=ready, stack=1, asleep=False)
    if traces:
        trace.sampled(150_000, 2_000, ops=5, stack=1, asleep=False)
    return trace


def test_samples_in_a_function_that_traces_nothing_stand_for_their_intervals(analyze):
    """The ops of a whole step lie in each interval: eight of ten are not tracing for that."""
    assert of_lines(analyze(rounds(silent=2)), "host:python")["max(words)"] == 80 + 10


@pytest.mark.parametrize(
    "rounds_given",
    [{"silent": 1}, {"silent": 2, "traces": True}, {"silent": 2, "ready": 4_500}],
    ids=["seen once", "it traces", "it hardly ran"],
)
def test_samples_in_other_functions_are_split_by_their_ops(analyze, rounds_given):
    lines = of_lines(analyze(rounds(**rounds_given)), "host:python")
    assert lines.get("max(words)", 0) != 80 + 5 * rounds_given["silent"]


@pytest.mark.parametrize(("asleep", "part"), [(True, "host:io"), (False, "host:python")])
def test_a_call_that_may_block_does_where_the_thread_sleeps_in_it(analyze, asleep, part):
    trace = step()
    trace.sampled(0, 20_000, stack=1, asleep=False, **stack("rank(x)"))
    trace.sampled(20_000, 20_000, cpu=4_000, stack=2, asleep=asleep, **stack("file.write(x)"))
    report = analyze(trace)
    assert ("file.write(x)" in of_lines(report, "host:io")) == (part == "host:io")


def digests_then(call, *, blocked=(0, 0), prompt=1):
    """Four rounds of 10 ms: a digest and `call`; of three samples, the second comes in `call`.

    `blocked` is how long the thread was off the CPU before the sample in the call, and after it (us).
    """
    trace, before, after = step(), *blocked
    digest, other = ({**words, "prompt": prompt} for words in (stack("digest(tree)"), stack(call)))
    other["source"] = "/home/u/train.py:9"
    for begin in range(0, 40_000, 10_000):
        trace.sampled(begin, 2_000, stack=1, **digest)
        trace.sampled(begin + 2_000, 5_000, cpu=5_000 - before, stack=2, **other)
        trace.sampled(begin + 7_000, 3_000, cpu=3_000 - after, stack=1, **digest)
    return trace


def ms_at(host, part, line):
    rows = [row for row in host_stack_rows([host]) if row.part == part and row.source.endswith(f":{line}")]
    return sum(row.exposed_ms_per_step for row in rows)


def test_a_write_that_only_copies_is_seen_as_often_as_it_runs(read):
    """It is half of the time, in every second sample: all of it went to the line before."""
    host = read(digests_then("buffer.write(line)"))
    assert ms_at(host, "host:io", 9) == pytest.approx(20, abs=0.2)
    assert ms_at(host, "host:python", 7) == pytest.approx(20, abs=0.2)


def test_a_lock_that_nobody_else_has_is_python(read):
    host = read(digests_then("with lock"))
    assert ms_at(host, "host:python", 9) == pytest.approx(20, abs=0.2)


@pytest.mark.parametrize("call", ["file.flush()", "queue.get()"])
@pytest.mark.parametrize("given", [{"blocked": (0, 1_500)}, {"blocked": (1_500, 0)}, {"prompt": 0}])
def test_what_ran_before_a_call_that_blocks_is_where_the_thread_was(read, call, given):
    """It blocks before the sample, or after it; or the sample came because the call let go of Python's lock."""
    host = read(digests_then(call, **given))
    assert ms_at(host, "host:python", 9) == pytest.approx(0, abs=0.2)
    assert ms_at(host, "host:python", 7) >= 33


def test_long_calls_of_jax_own_python_are_dispatch(read):
    """JAX's samples count no ops, so that none came says nothing."""
    inside = "value_and_grad_f (/venv/lib/python3.11/site-packages/jax/_src/api.py:9)"
    wall = 2_000 * FRAMEWORK_WITHOUT_OPS_MS
    trace = TraceBuilder()
    trace.host().line("python").event("train", 0, wall, _r=1, step_num=0)
    called_by(trace, wall - 500, 500)
    trace.sampled(0, wall - 500, stack=1, **stack("f(x)", TRAIN, inside))
    assert parts_ms(read(trace)) == {"dispatch": pytest.approx(wall / 1_000)}


def test_the_line_before_a_call_of_jax_is_no_line_of_its_copies(analyze):
    """A sample inside the call says nothing of the time before it: that is the line's of the sample before."""
    trace = TraceBuilder()
    python = trace.host().line("python")
    for at in range(0, 100_000, 20_000):
        python.event("train", at, 20_000, _r=1, step_num=at // 20_000)
        python.event("PjitFunction(step)", at + 14_000, 5_900)
        python.event("BatchedDevicePut", at + 15_000, 4_500)
        trace.sampled(at, 8_000, stack=1, asleep=False, **(stack("rank(x)") if not at else {}))
        called = {**stack("step(w, x)"), "source": "/home/u/train.py:9"}
        trace.sampled(at + 8_000, 8_000, stack=2, asleep=False, **(called if not at else {}))
        trace.sampled(at + 16_000, 4_000, stack=2, asleep=False)
    report = analyze(trace)
    assert "rank(x)" in of_lines(report, "host:python")
    assert "rank(x)" not in of_lines(report, "host_to_device")


def looked_at(offsets, *, step_ops=40, package="torch/nn/modules"):
    """Steps of 10 ms that trace 40 ops, each with one sample in a framework's call, after so many of its ops."""
    trace, at = TraceBuilder(), 0
    python = trace.host().line("python")
    before = 0
    for row, offset in enumerate(offsets):
        python.event("train_step", 10_000 * row, 10_000, _r=1, step_num=row)
        python.event(GRAPH_CUT, 10_000 * row + 9_800, 100, grad=1, source="t.py:9")
        python.event("SyncTensorsGraph", 10_000 * row + 9_810, 50)
        ops = step_ops * row + offset
        moment = 10_000 * row + 5_000
        frames = (TRAIN, f"forward (/venv/lib/python3.11/site-packages/{package}/linear.py:134)")
        trace.sampled(
            at, moment - at, ops=ops - before, stack=1, asleep=False, **stack("teacher(x)", *frames)
        )
        at, before = moment, ops
    return trace


@pytest.mark.parametrize(
    ("offsets", "part"),
    [
        ([7] * 8, "host:python"),
        ([7, 8, 7, 7, 6, 7, 7, 8], "host:python"),
        ([7, 25, 12, 33, 3, 18, 29, 10], "tracing"),
        # Four pairs tell, and three do not.
        ([7] * 5, "host:python"),
        ([7] * 4, "tracing"),
    ],
)
def test_a_line_that_is_always_seen_at_the_same_op_of_a_step_traces_nothing(read, offsets, part):
    """A model on the host, say: its frames are the framework's, and each interval holds ops of other lines."""
    found = parts_ms(read(looked_at(offsets)))
    assert found.get(part, 0.0) >= 0.6 * sum(found.values())


@pytest.mark.parametrize(("package", "part"), [("torch/nn/modules", "host:python"), ("torch_xla", "tracing")])
def test_the_call_that_hands_the_graph_over_is_no_work_on_host_tensors(read, package, part):
    found = parts_ms(read(looked_at([7] * 8, package=package)))
    assert found.get(part, 0.0) >= 0.6 * sum(found.values())


@pytest.mark.parametrize(("longer", "part"), [(0.9, "tracing"), (1.1, "host:python")])
def test_a_line_that_calls_an_op_or_two_of_a_short_step_is_seen_at_the_same_op_too(read, longer, part):
    """One sample per ten steps, which is all the time that the line takes of each, or more than two ops take."""
    step, count = round(LONGER_THAN_MS * 1_000 * longer), 100
    trace, at = TraceBuilder(), 0
    python = trace.host().line("python")
    for row in range(count):
        python.event("train_step", step * row, step, _r=1, step_num=row)
        python.event(GRAPH_CUT, step * row + step - 20, 10, grad=1, source="t.py:9")
        python.event("SyncTensorsGraph", step * row + step - 20, 10)
    frames = (TRAIN, "relu (/venv/lib/python3.11/site-packages/torch/nn/functional.py:1)")
    for row in range(5, count, 10):
        moment = step * row + step // 2
        trace.sampled(
            at, moment - at, ops=200 if at else 110, stack=1, asleep=False, **stack("relu(x)", *frames)
        )
        at = moment
    found = parts_ms_of_all(read(trace))
    assert found.get(part, 0.0) >= 0.6 * sum(found.values())


def windows_of_images(looks, images=10, windows=10, step_us=250):
    """Images of ten windows, a step each, of 20 ops. `looks`: (line, steps into an image) at which samples come."""
    trace, at, before = TraceBuilder(), 0, 0
    python = trace.host().line("python")
    for row in range(images * windows):
        start = step_us * row
        python.event("train_step", start, step_us, _r=1, step_num=row)
        python.event(GRAPH_CUT, start + step_us - 20, 10, grad=1, source="t.py:9")
        python.event("SyncTensorsGraph", start + step_us - 20, 10)
    for image in range(images):
        for number, (line, into) in enumerate(looks):
            moment, ops = round(step_us * (windows * image + into)), round(20 * (windows * image + into))
            frames = (TRAIN, "relu (/venv/lib/python3.11/site-packages/torch/nn/functional.py:1)")
            source = {"source": f"/home/u/train.py:{line}", "user_call": f"line{line}(x)"}
            known = {**stack("relu(x)", *frames), **source} if not image else {}
            trace.sampled(at, moment - at, ops=ops - before, stack=number + 1, asleep=False, **known)
            at, before = moment, ops
    return trace


@pytest.mark.parametrize(
    ("looks", "python"),
    [
        # Seen once per image, as the windows before it are: it takes 0.5 ms of an image, more than an op or two.
        ([(7, 1.3), (7, 3.9), (7, 6.1), (7, 8.0), (9, 10.0)], True),
        # The sampler comes once per image: so is any line seen.
        ([(9, 10.0)], False),
    ],
)
def test_a_line_that_runs_in_one_of_many_steps_takes_its_time_in_those(analyze, looks, python):
    """What follows the windows of an image, on the host: half its time was called tracing of the windows before."""
    report = analyze(windows_of_images(looks))
    assert ("line9(x)" in of_lines(report, "host:python")) is python
    assert ("line9(x)" in of_lines(report, "tracing")) is not python


@pytest.mark.parametrize(("texts", "python"), [(("line 3 of ", "line 9 of "), True), (("", ""), False)])
def test_lines_of_a_text_that_a_line_runs_are_lines_of_their_own(read, texts, python):
    """A text has a line that calls ops and another that computes on the host, after the last ops of the other."""
    builds, counts = (f"{text}exec(cell)" for text in texts)
    trace = step(60_000)
    for row in range(2):
        at = 30_000 * row
        for of in range(2):
            words = stack(builds) if not row and not of else {}
            trace.sampled(at + 5_000 * of, 5_000, ops=60, stack=1, asleep=False, **words)
        words = stack(counts) if not row else {}
        trace.sampled(at + 10_000, 20_000, ops=3, stack=2, asleep=False, **words)
    found = parts_ms(read(trace))
    assert bool(found.get("host:python", 0.0) > 30) is python


@pytest.mark.parametrize(("calls", "python"), [((11, 12), True), ((11, 11), False)])
def test_a_function_that_is_called_from_anywhere_traces_nothing_of_what_ran_before(read, calls, python):
    """A handler of a signal: the ops between two looks into it are those that it interrupts."""
    trace = step(40_000)
    for row in range(4):
        frames = (f"step (/venv/lib/python3.11/site-packages/torch/optim/adam.py:{calls[row % 2]})",)
        frames = ("<module> (/home/u/train.py:3)", *frames, "on_alarm (/home/u/train.py:7)")
        words = stack("sum(squares)", *frames) if row < 2 else {}
        trace.sampled(10_000 * row, 10_000, ops=30, stack=1 + row % 2, asleep=False, **words)
    found = parts_ms(read(trace))
    assert bool(found.get("host:python", 0.0) > 10) is python


JOIN = (
    "join (/usr/lib/python3.11/threading.py:1119)",
    "_wait_for_tstate_lock (/usr/lib/python3.11/threading.py:1139)",
)


@pytest.mark.parametrize(("elsewhere", "told"), [(0, False), (2, True)])
def test_a_thread_that_joins_another_all_along_does_not_train(read, elsewhere, told):
    """It was sampled since it had compiled the step, and "waits for a thread at t.join()" was the verdict."""
    trace = step()
    for number in range(8):
        frames = (TRAIN,) if number < elsewhere else (TRAIN, *JOIN)
        kind = int(number < elsewhere)
        trace.sampled(number * 5_000, 5_000, cpu=0, stack=kind, **stack("lock.acquire()", *frames))
    assert ((read(trace).activity.samples) is not None) is told
