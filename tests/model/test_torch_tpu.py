"""TorchTPU captures: event names as torch_tpu 0.2 with torch 2.13 writes them, and the real captures where they are."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from tests.builders import TraceBuilder
from tpuprof.analysis.analyze import analyze_run
from tpuprof.render.markdown import render_markdown
from tpuprof.render.text import render

REAL = Path(__file__).resolve().parents[3] / "shared" / "torch_tpu" / "profiles"
STEP = 10_000


def doubled(line, name, start, duration, **stats):
    """An event as the native torch.profiler writes it: twice, one inside the other."""
    line.event(name, start, duration, **stats).event(name, start + 1, duration - 2, **stats)


def training(
    steps=5, *, marked=True, read=0, ops=20, op_us=300, loader=0, shapes=None, twice=True, compile_us=0
):
    """Steps of an eager loop: the training thread's ops, the graph and the execution thread."""
    trace = TraceBuilder()
    main, graph, run = (trace.host().line(name) for name in ("python", "python ", "python  "))
    compiler = trace.host().line("tf_tt_compile/17")
    write = doubled if twice else lambda line, *args, **stats: line.event(*args, **stats)
    for number in range(steps):
        begin = number * STEP
        at = begin + 20
        if marked:
            write(main, "ProfilerStep", begin, STEP - 10)
        if loader:
            write(main, "enumerate(DataLoader)", at, loader)
            main.event("aten::stack", at + 5, loader - 10)
            at += loader
        shape = shapes[number] if shapes else "f32[64,256]"
        main.event("TpuMallocAndMemcpyHtoD", at, 50)
        main.event(f"PjRtCApiCompiler::BufferFromHostBuffer({shape})", at + 5, 40)
        at += 60
        for op in range(ops):
            write(main, "aten::linear", at, op_us - 20, pt_correlation_id=str(number * ops + op))
            graph.event("CompileTraversal", at + 10, 20)
            run.event("ExecutionTask::Run", at + 40, 30)
            at += op_us
        if compile_us:
            compiler.event("PjRtCApiClient::CompileAndLoad(tt_jit_linear)", at - compile_us, compile_us)
        write(main, "Optimizer.step", at, 100)
        at += 120
        if read:
            main.event("AtenLocalScalarDense", at, read).event("CopyTpuToCpu", at + 5, read - 10)
    return trace


@pytest.fixture
def report(tmp_path):
    return lambda trace: analyze_run(trace.write(tmp_path / "vm.xplane.pb"))


def finding(found, rule):
    return next(each for each in found.findings if each.rule == rule)


def failed(found):
    return [each.rule for each in found.findings if each.status == "failed"]


def test_steps_come_from_profiler_steps_without_numbers(report):
    found = report(training())
    assert (found.steps.count, found.steps.method, found.steps.confidence) == (
        5,
        "torch.profiler steps",
        "high",
    )
    assert [row.index for row in found.steps.per_step] == [0, 1, 2, 3, 4]
    assert found.environment["framework"] == "torch_tpu"


def test_steps_come_from_optimizer_calls_that_have_no_name(report):
    found = report(training(marked=False))
    assert (found.steps.count, found.steps.method, found.steps.confidence) == (4, "optimizer steps", "medium")
    assert "does not name the optimizers" in found.steps.note


@pytest.mark.parametrize("twice", [False, True])
def test_events_of_two_profilers_count_once(report, twice):
    found = report(training(marked=False, twice=twice))
    assert found.steps.count == 4
    rule = finding(found, "eager-dispatch")
    values = {each.text: each.value for each in rule.evidence}
    assert values["programs run"] == 20
    assert values["ops called"] == 20


def test_without_a_device_plane_nothing_is_said_of_the_device(report):
    found = report(training())
    assert found.verdict.bound == "dispatch"
    assert "the device idles" not in found.verdict.sentence
    assert "no device plane" in found.verdict.sentence
    assert any("no device activity" in each for each in found.warnings)


def test_ops_one_by_one_are_found_and_advised_for_torch_tpu(report):
    found = report(training())
    assert failed(found) == ["eager-dispatch"]
    fix = finding(found, "eager-dispatch").fix
    assert "TORCH_TPU_DEFER_AND_FUSE" in fix.text and "torch_xla" not in fix.text


def test_rules_of_torch_xla_do_not_judge_torch_tpu(report):
    found = finding(report(training()), "eager-mode")
    assert (found.status, found.reason) == (
        "not_applicable",
        "it is about PyTorch/XLA, and this is a run of TorchTPU",
    )


def test_a_fused_step_is_no_fault(report):
    assert "eager-dispatch" not in failed(report(training(ops=4, op_us=1500)))


def test_a_read_in_each_step_comes_first_and_counts_once(report):
    found = report(training(read=3000))
    assert failed(found)[0] == "device-to-host-sync"
    assert [(row.call, row.occurrences) for row in found.host_reads] == [("AtenLocalScalarDense", 5)]
    assert found.host_reads[0].blocked_ms_per_step == pytest.approx(3, abs=0.1)


def test_reading_a_value_on_the_host_is_no_read(report):
    trace = training()
    main = trace.host().line("python")
    for number in range(5):
        main.event("aten::item", number * STEP + 7000, 900).event(
            "aten::_local_scalar_dense", number * STEP + 7010, 800
        )
    assert report(trace).host_reads == []


def test_ops_inside_the_loader_are_input(report):
    found = report(training(loader=3000))
    assert found.breakdown["input_wait"].ms_per_step == pytest.approx(3, rel=0.05)
    assert failed(found)[0] in ("input-starved", "eager-dispatch")
    assert "input-starved" in failed(found)


def test_a_compile_is_explained_by_a_new_upload(report):
    shapes = [f"f32[{64 - step},256]" for step in range(5)]
    found = report(training(shapes=shapes, compile_us=5000))
    causes = [row.cause.kind for row in found.compiles]
    assert causes == ["unknown", "shape", "shape", "shape", "shape"]
    assert "f32[63,256] was not uploaded in any captured step before" in found.compiles[1].cause.detail
    assert found.compiles[1].program == "tt_jit_linear"
    assert failed(found)[0] == "recompiles-shape"


def test_a_later_compile_is_not_blamed_on_an_upload_of_long_ago(report):
    shapes = ["f32[64,256]", "f32[63,256]", *["f32[64,256]"] * 4]
    causes = [row.cause.kind for row in report(training(6, shapes=shapes, compile_us=5000)).compiles]
    # The host runs ahead: a compile may belong to the step before it, not to earlier ones.
    assert causes == ["unknown", "shape", "shape", "unknown", "unknown", "unknown"]


def test_a_compile_without_a_new_upload_stays_unknown(report):
    found = report(training(compile_us=5000))
    assert {row.cause.kind for row in found.compiles} == {"unknown"}
    assert "TORCH_TRACE" in found.compiles[-1].cause.detail


def test_a_host_that_runs_ahead_is_charged_with_what_it_left(report):
    trace = training()
    compiler = trace.host().line("tf_tt_compile/17")
    compiler.event("PjRtCApiClient::CompileAndLoad(tt_jit_late)", 5 * STEP + 100, 200_000)
    found = report(trace)
    assert found.verdict.bound == "compile"
    assert "the host ran ahead" in found.steps.note
    assert found.steps.per_step[-1].wall_ms == pytest.approx(210, abs=1)


@pytest.mark.parametrize(("at", "bound"), [(100, "input"), (6_200, "compile")])
def test_a_compile_beside_the_wait_for_a_batch_costs_nothing(report, at, bound):
    """The training thread waits for its batch as long, whatever another thread compiles; for ops it waits longer."""
    trace = training(loader=6_000, ops=12)
    compiler = trace.host().line("tf_tt_compile/17")
    for step in range(5):
        compiler.event("PjRtCApiClient::CompileAndLoad(tt_jit_linear)", step * STEP + at, 3_600)
    found = report(trace)
    spent = {name: part.ms_per_step for name, part in found.breakdown.items()}
    if bound == "input":
        assert found.verdict.bound == "input"
        assert (spent["input_wait"], spent.get("compile", 0.0)) == (pytest.approx(6.0, abs=0.1), 0.0)
    else:
        assert (spent["input_wait"], spent["compile"]) == (
            pytest.approx(6.0, abs=0.1),
            pytest.approx(3.6, abs=0.2),
        )


def test_short_pauses_are_dispatch_and_long_ones_are_undecided(report):
    found = report(training(ops=20, op_us=100))
    # 2 ms of ops in a step of 10 ms: what is left has no event.
    assert found.verdict.bound == "undecided"
    assert "nothing in the trace tells these apart" in found.verdict.sentence
    assert found.breakdown["dispatch"].ms_per_step == pytest.approx(2.2, rel=0.15)


def test_an_optimizer_that_loops_over_parameters_is_found(report):
    trace = training(ops=5)
    main = trace.host().line("python")
    for number in range(5):
        begin = number * STEP + 3000
        main.event("Optimizer.step", begin, 5000)
        for op in range(40):
            main.event("aten::mul_", begin + 10 + op * 120, 100)
    found = report(trace)
    assert failed(found)[0] == "optimizer-loop"


def test_autograd_never_trains(report):
    trace = training(ops=4)
    backward = trace.host().line("pt_autograd_0")
    for number in range(400):
        backward.event("aten::mm", number * 100, 50)
    found = report(trace)
    assert found.steps.count == 5


def test_a_trace_without_steps_is_one_window(report):
    trace = TraceBuilder()
    main = trace.host().line("python")
    for number in range(40):
        main.event("aten::linear", number * 100, 90)
    trace.host().line("python ").event("ExecutionTask::Run", 10, 20)
    found = report(trace)
    assert found.steps.whole_capture
    assert found.verdict.bound == "dispatch"


def real(name):
    if not (REAL / name).is_file():
        pytest.skip("the real TorchTPU captures are not here")
    return analyze_run(REAL / name)


@pytest.mark.parametrize(
    ("name", "steps", "source", "bound"),
    [
        ("cold.xplane.pb", 4, "torch.profiler steps", "compile"),
        ("fuse.xplane.pb", 4, "torch.profiler steps", "compile"),
        ("comp.xplane.pb", 4, "torch.profiler steps", "compile"),
        ("native.xplane.pb", 5, "optimizer steps", "dispatch"),
    ],
)
def test_real_captures_are_read(name, steps, source, bound):
    found = real(name)
    assert (found.steps.count, found.steps.method, found.verdict.bound) == (steps, source, bound)
    assert "the device idles" not in found.verdict.sentence
    assert sum(each.share for each in found.breakdown.values()) == pytest.approx(1)


@pytest.mark.parametrize("name", ["cold", "fuse", "comp", "native"])
def test_no_word_on_a_real_capture_is_of_an_idle_device_or_of_another_framework(name):
    found = real(f"{name}.xplane.pb")
    shown = io.StringIO()
    render(found, Console(file=shown, width=250))
    text = shown.getvalue() + render_markdown(found)
    wrong = ("device idle", "the device idles", "torch_xla", "PyTorch/XLA", "PJRT_DEVICE")
    assert [each for each in wrong if each in text] == []


@pytest.mark.parametrize("name", ["cold", "fuse"])
def test_reads_of_a_cold_start_wait_for_its_compiles(name):
    found = real(f"{name}.xplane.pb")
    assert failed(found)[0] == "recompiles-other"
    assert "device-to-host-sync" not in failed(found)


def test_what_no_device_plane_shows_is_not_called_idle(report):
    found = report(training(loader=3000, ops=10))
    assert "device idle" not in render_markdown(found)
    assert not any("device idle" in row.text for row in finding(found, "input-starved").evidence)


def test_real_compiles_have_their_programs():
    found = real("cold.xplane.pb")
    assert len(found.compiles) == 13
    assert "tt_jit_cross_entropy_loss_backward" in {row.program for row in found.compiles}


def test_a_real_fused_step_has_few_programs():
    def programs(name):
        rule = finding(real(name), "eager-dispatch")
        return next(each.value for each in rule.evidence if each.text == "programs run")

    assert programs("fuse.xplane.pb") < 8 <= programs("cold.xplane.pb")


def compiled(*, nested, twice=False, late=0):
    """Steps in which torch.compile made two functions: one calls the other, or they follow one another.

    The last step takes so much longer (us), between the two.
    """
    trace = TraceBuilder()
    main, run = (trace.host().line(name) for name in ("python", "python "))
    write = doubled if twice else lambda line, *args: line.event(*args)
    for number in range(5):
        begin, more = number * STEP, late if number == 4 else 0
        write(main, "ProfilerStep", begin, STEP - 10 + more)
        write(main, "Torch-Compiled Region: 0/0", begin + 100, (9000 if nested else 2000) + more)
        main.event("CompiledFunction", begin + 150, 1900)
        write(main, "Torch-Compiled Region: 1/0", begin + 7000 + more, 2000)
        main.event("CompiledFunction", begin + 7100 + more, 1800)
        for at in (200, 7200):
            run.event("ExecutionTask::Run", begin + at, 50)
    return trace


@pytest.mark.parametrize("twice", [False, True])
def test_a_function_that_is_called_inside_of_another_shows_a_graph_break(report, twice):
    rule = finding(report(compiled(nested=True, twice=twice)), "graph-breaks")
    assert (rule.status, rule.confidence) == ("failed", "medium")
    values = {each.text: each.value for each in rule.evidence}
    assert values["of them, called inside of another: graph breaks"] == 1
    assert values["time between the first and the last of them"] == pytest.approx(5.0, abs=0.3)
    assert "breaks once per step" in rule.title


def test_a_part_that_compiles_in_one_step_does_not_stand_for_all_steps(report):
    rule = finding(report(compiled(nested=True, late=500_000)), "graph-breaks")
    values = {each.text: each.value for each in rule.evidence}
    assert values["time between the first and the last of them"] == pytest.approx(5.0, abs=0.3)


def test_functions_that_follow_one_another_may_have_been_compiled_apart(report):
    rule = finding(report(compiled(nested=False)), "graph-breaks")
    assert (rule.status, rule.confidence) == ("failed", "low")
    assert "functions compiled apart" in rule.title


def test_without_a_device_plane_a_wait_for_input_saves_between_nothing_and_the_wait(report):
    savings = finding(report(training(loader=3000, ops=10)), "input-starved").savings
    assert (savings.low, savings.method) == (0.0, "bound")
    assert savings.high == pytest.approx(3.0, abs=0.2)
    assert "no device plane" in savings.note


def test_without_a_device_plane_compiles_are_priced_because_the_device_waits_for_them_too(report):
    shapes = [f"f32[{64 + number},256]" for number in range(6)]
    found = report(training(6, shapes=shapes, compile_us=4000, ops=10))
    savings = finding(found, "recompiles-shape").savings
    assert savings.method == "counterfactual"
    assert 0 < savings.high <= 4.2
    assert savings.note == ""


@pytest.mark.parametrize("file", ["convert_frame", "eval_frame"])
def test_ops_that_dynamo_calls_to_trace_a_function_are_no_dispatch(report, file):
    """A quarter of steps that compile was "dispatch", which fixing recompiles left: 466 of 606 ms were priced."""
    trace = training(6, shapes=[f"f32[{64 + number},256]" for number in range(6)], compile_us=2000, ops=10)
    main = trace.host().line("python")
    frame = f"trace (/venv/lib/python3.11/site-packages/torch/_dynamo/{file}.py:9)"
    words = {"frames": f"train (/home/u/train.py:7);{frame}", "call": "fn()", "source": "/home/u/train.py:7"}
    for number in range(6):
        at = number * STEP + 5_000
        main.event("PythonDispatchMode", at, 3_000).event("aten::mm", at, 2_990)
        trace.sampled(at, 3_000, stack=1, **(words if not number else {}))
    parts = {name: row.ms_per_step for name, row in report(trace).breakdown.items()}
    assert parts["compile"] == pytest.approx(5 if file == "convert_frame" else 2, abs=0.1)


def sleeping(device):
    """Steps of TorchTPU in which the training thread sleeps for 5 of 10 ms, with a device plane or without."""
    trace = training(ops=10)
    for number in range(5):
        words = {"frames": "train (/home/u/train.py:7)", "call": "time.sleep(0.005)"} if not number else {}
        words.update({"source": "/home/u/train.py:7", "user_call": "time.sleep(0.005)"} if words else {})
        trace.sampled(number * STEP + 4_000, 5_000, cpu=0, stack=1, **words)
        if device:
            trace.tpu(0).line("XLA Modules").event("step(7)", number * STEP + 100, 3_000)
            trace.tpu(0).line("XLA Ops").event("%fusion.1 = f32[8]{0} fusion()", number * STEP + 100, 3_000)
    return trace


def test_a_sleep_beside_the_compile_of_another_thread_is_priced_as_the_sleep_that_it_is(report):
    """The training thread does not wait for that compile, so it counts as no compile, in the price neither."""
    trace = sleeping(False)
    compiler = trace.host().line("tf_tt_compile/17")
    compiler.event("PjRtCApiClient::CompileAndLoad(tt_jit_linear)", 3_900, 2 * STEP)
    found = report(trace)
    assert found.breakdown["host:sleep"].ms_per_step == pytest.approx(5, abs=0.1)
    assert finding(found, "host-blocked").savings.high == pytest.approx(5, abs=0.1)


@pytest.mark.parametrize("device", [False, True])
def test_a_title_says_that_the_device_idles_only_where_the_trace_shows_it(report, device):
    found = finding(report(sleeping(device)), "host-blocked")
    assert found.status == "failed" and "sleeps at /home/u/train.py:7" in found.title
    assert found.title.endswith("while the device idles") is device


@pytest.mark.parametrize(("seconds", "status"), [(24.0, "failed"), (8.0, "passed")])
def test_a_slow_start_is_found_without_a_device_plane(tmp_path, seconds, status):
    compiled = [{"graphs": 700, "seconds": seconds, "frames": [], "graph_hashes": []}]
    row = {"step": 0, "wall_ns": 25 * 10**9, "captured": False, "counters": {}, "compiles": compiled}
    (tmp_path / "tpuprof").mkdir()
    (tmp_path / "tpuprof" / "telemetry.vm.0.jsonl").write_text(json.dumps(row) + "\n")
    training().write(tmp_path / "plugins" / "profile" / "2026_11_22" / "vm.xplane.pb")
    found = finding(analyze_run(tmp_path), "slow-compile")
    assert found.status == status
    if status == "failed":
        assert found.savings.start_high_s == pytest.approx(seconds)


@pytest.mark.parametrize(("value", "deferred"), [("1", True), ("0", False), (None, False)])
def test_deferred_ops_are_not_said_to_run_one_by_one(tmp_path, value, deferred):
    environment = {} if value is None else {"TORCH_TPU_DEFER_AND_FUSE": value}
    (tmp_path / "tpuprof").mkdir()
    (tmp_path / "tpuprof" / "run.json").write_text(
        json.dumps({"schema": "tpuprof.run/1", "environment": environment})
    )
    training().write(tmp_path / "plugins" / "profile" / "2026_11_22" / "vm.xplane.pb")
    found = finding(analyze_run(tmp_path), "eager-dispatch")
    assert found.status == "failed"
    assert found.title.startswith("Deferred ops are run in 20 programs") is deferred
    assert found.title.startswith("Ops run one by one") is not deferred


def test_the_line_of_a_slow_loader_is_named_though_its_samples_lie_in_ops(report):
    """A data set decodes with ops of torch's, which are events; the backward pass is sampled, too."""
    trace = training(loader=6_000, ops=4)
    made = {"call": "noise.sort()", "source": "/home/u/data.py:14", "user_call": "noise.sort()"}
    frames = "main (/home/u/train.py:20);__getitem__ (/home/u/data.py:14)"
    other = {"call": "run_backward()", "source": "/home/u/train.py:17", "user_call": "loss.backward()"}
    for number in range(5):
        begin = number * STEP
        trace.sampled(begin, 4_000, stack=1, **({"frames": frames, **made} if not number else {}))
        trace.sampled(begin + 4_000, 1_900, stack=1)
        trace.sampled(
            begin + 5_900,
            1_500,
            stack=2,
            **({"frames": "main (/home/u/train.py:17)", **other} if not number else {}),
        )
    rule = finding(report(trace), "input-starved")
    assert (rule.status, rule.title.partition(", at ")[2]) == ("failed", "/home/u/data.py:14 (noise.sort())")


@pytest.mark.parametrize("saves", [True, False])
def test_reads_of_a_checkpoint_are_the_checkpoint(report, saves):
    """Every step saves for 4 ms, of which 3 ms are reads of parameters; without a checkpoint around they are reads."""
    trace = training(ops=10)
    main = trace.host().line("python")
    for number in range(5):
        at = number * STEP + 5_000
        if saves:
            main.event("tpuprof.checkpoint", at, 4_000)
        main.event("aten::copy_", at + 500, 3_000).event("CopyTpuToCpu", at + 510, 2_980)
    found = report(trace)
    parts = {name: row.ms_per_step for name, row in found.breakdown.items() if row.ms_per_step > 0.02}
    assert parts.get("user:checkpoint", 0) == pytest.approx(4 if saves else 0, abs=0.01)
    assert parts.get("device_to_host_sync", 0) == pytest.approx(0 if saves else 2.98, abs=0.01)
    assert [name for name in found.breakdown if name.startswith("user:") and name != "user:checkpoint"] == []
    assert (found.verdict.bound == "checkpoint") is saves


def test_ops_that_a_print_of_a_tensor_runs_are_ops_and_its_reads_are_none(report):
    """Torch formats a tensor on the device: 20 ops, each a program, and two reads. A loader's ops run on the host."""
    trace = training(ops=10, loader=100)
    main, run = trace.host().line("python"), trace.host().line("python  ")
    for number in range(5):
        at = number * STEP + 5_000
        main.event("tpuprof.host_read", at, 3_000, call="__repr__")
        for op in range(20):
            main.event("aten::ne", at + 10 + op * 100, 80)
            run.event("ExecutionTask::Run", at + 40 + op * 100, 30)
        for read in range(2):
            main.event("aten::to", at + 2_100 + read * 300, 200).event(
                "CopyTpuToCpu", at + 2_110 + read * 300, 150
            )
    found = finding(report(trace), "eager-dispatch")
    assert found.title.startswith("Ops run one by one: 30 programs for 30 ops in a step")


def test_what_an_optimizer_reads_is_no_loop_over_parameters(report):
    """Norms of each parameter, by `.item()` in an optimizer of the program's own, were time of its ops."""
    trace = training(ops=5)
    main = trace.host().line("python")
    for number in range(5):
        begin = number * STEP + 3000
        main.event("Optimizer.step", begin, 4820)
        for op in range(40):
            main.event("aten::norm", begin + 10 + op * 120, 5)
            main.event("AtenLocalScalarDense", begin + 20 + op * 120, 108).event(
                "CopyTpuToCpu", begin + 25 + op * 120, 98
            )
    found = report(trace)
    assert failed(found)[0] == "device-to-host-sync"
    assert "optimizer-loop" not in failed(found)
