"""GPU planes: streams, kernels by op, steps, collectives of NCCL; and what rules of TPUs say of them."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from tests.builders import TraceBuilder
from tpuprof.decode.load import load
from tpuprof.model.host.python_calls import SLOWS_EVERY_PS, tracer_note
from tpuprof.model.timeline import build_host
from tpuprof.timeline.lanes import extent, lanes_of

SECOND = [0, 1000, 2000]
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"


def gpu_trace(vendor="Nvidia"):
    """Three steps of 1 ms: 500 us of a matmul, an all-reduce of 200 us of which 100 us lie beside it, a copy of 50 us."""
    trace = TraceBuilder()
    for number, begin in enumerate(SECOND):
        trace.host().line("python").event("train", begin, 1000, _r=1, step_num=number)
    trace.plane("/device:GPU:1")
    plane = trace.plane("/device:GPU:0").stat(device_vendor=vendor, memory_bandwidth=900_000_000_000)
    for begin in SECOND:
        facts = {
            "hlo_op": "dot.1",
            "hlo_module": "jit_step",
            "tf_op": "jit(step)/dot",
            "correlation_id": 1 + begin,
        }
        plane.line("Stream #13(Compute)").event("ampere_bf16_gemm_128x128", begin, 500, **facts)
        facts = {"hlo_op": "all-reduce.2", "hlo_module": "jit_step", "correlation_id": 2 + begin}
        plane.line("Stream #14(Compute)").event(REDUCE, begin + 400, 200, **facts)
        details = "kind_src:pageable kind_dst:device size:4096 dest:0 async:1"
        plane.line("Stream #15(MemcpyH2D)").event("MemcpyH2D", begin + 700, 50, memcpy_details=details)
        # The same work again, by framework op.
        plane.line("TensorFlow Ops").event("jit(step)/dot", begin, 500)
    return trace


def test_steps_and_parts_of_a_gpu(analyze):
    report = analyze(gpu_trace())
    assert (report.environment["device_type"], report.environment["device_count"]) == ("GPU (Nvidia)", 1)
    assert (report.steps.count, report.steps.median_ms) == (3, pytest.approx(1.0))
    parts = {name: part.ms_per_step for name, part in report.breakdown.items()}
    assert parts["compute"] == pytest.approx(0.5)
    assert parts["collective_exposed"] == pytest.approx(0.1)
    assert parts["infeed_outfeed"] == pytest.approx(0.05)
    assert report.run_summary.device_busy_share == pytest.approx(0.65)
    assert any("1 of 2 x GPU (Nvidia) did no work" in each for each in report.warnings)


def test_a_negative_duration_on_a_gpu_is_said(analyze):
    trace = gpu_trace()
    trace.plane("/device:GPU:0").line("Stream #13(Compute)").event("kernel", 900, -5)
    (said,) = [each for each in analyze(trace).warnings if "negative" in each]
    assert "/device:GPU:0: inconsistent: 1 events have negative durations" in said


def test_the_op_table_of_a_gpu_names_hlo_ops_and_kernels(analyze):
    rows = {row.name: row for row in analyze(gpu_trace()).ops}
    assert set(rows) == {"dot.1", "all-reduce.2", "MemcpyH2D"}
    assert (rows["dot.1"].occurrences, rows["dot.1"].self_ms) == (3, pytest.approx(1.5))
    assert rows["dot.1"].program == "jit_step"
    assert rows["all-reduce.2"].category == "all-reduce"


def test_kernels_that_run_side_by_side_add_up_to_the_time_that_passed(analyze):
    report = analyze(gpu_trace())
    times = {row.name: row.self_ms_per_step for row in report.ops}
    assert times["dot.1"] + times["all-reduce.2"] == pytest.approx(0.6)


def test_a_collective_of_nccl_is_one(analyze):
    (row,) = analyze(gpu_trace()).collectives
    assert (row.kind, row.occurrences) == ("all-reduce", 3)
    assert row.exposed_ms_per_step == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("kernel", "category"),
    [
        (REDUCE, "all-reduce"),
        (
            "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(unsigned long)",
            "all-reduce",
        ),
        ("void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*)", "all-reduce"),
        ("void tensorrt_llm::kernels::oneShotAllReduceKernel<half, 8>(Params)", "all-reduce"),
        ("reduce_scatter_kernel(float*)", "reduce-scatter"),
        ("triton_poi_fused_all_gather_into_tensor_add_0", "kernel"),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(R)", "kernel"),
        ("void at::native::vectorized_gather_kernel<16, long>(char*)", "kernel"),
    ],
)
def test_kernels_that_read_other_gpus_are_collectives(kernel, category, analyze):
    trace = TraceBuilder()
    for number, begin in enumerate(SECOND):
        trace.host().line("python").event("train", begin, 1000, _r=1, step_num=number)
        trace.plane("/device:GPU:0").line("Stream #7(Compute)").event(
            kernel, begin, 500, correlation_id=1 + begin
        )
    report = analyze(trace)
    assert [row.category for row in report.ops] == [category]
    assert (report.breakdown["collective_exposed"].ms_per_step > 0) == (category != "kernel")


def test_rules_of_tpus_say_nothing_of_a_gpu_and_why(analyze):
    report = analyze(gpu_trace())
    for finding in report.findings:
        if finding.category in ("collective", "compute", "memory", "offload"):
            assert (finding.status, finding.reason) == (
                "unavailable", "the rule knows TPUs only, and this run is of GPUs"
            ), finding.rule  # fmt: skip
    assert {each.status for each in report.findings if each.category == "tracing"} > {"unavailable"}
    assert report.compute.mfu is None


def test_a_run_of_gpus_and_tpus_is_called_neither(analyze):
    """It read `5 of 12 x TPU v6 Lite`, and its rules said that the run is of GPUs."""
    tpus = TraceBuilder()
    for number in range(3):
        tpus.host().line("python").event("train", 1000 * number, 1000, _r=1, step_num=number)
        tpus.tpu(0).line("XLA Modules").event("f(1)", 1000 * number, 900)
        tpus.tpu(0).line("XLA Ops").event("fusion.1", 1000 * number, 900)
    report = analyze(tpus, gpu_trace())
    named = report.environment["device_type"]
    assert named == " and ".join(
        [analyze(tpus).environment["device_type"], analyze(gpu_trace()).environment["device_type"]]
    )
    reasons = {each.reason for each in report.findings if each.category == "compute"}
    assert reasons == {"the rule knows TPUs only, and some devices of this run are GPUs"}


def test_streams_are_lanes(tmp_path, read):
    run = read(gpu_trace())
    host = build_host(load(tmp_path / "host.xplane.pb"), "host")
    titles = [lane.title for lane in lanes_of(host, run)]
    assert [each for each in titles if "Stream" in each] == [
        "GPU:0 Stream #13(Compute)", "GPU:0 Stream #14(Compute)", "GPU:0 Stream #15(MemcpyH2D)"
    ]  # fmt: skip
    assert extent(host)[1] >= 2750 * 1_000_000


def test_gpus_without_work_are_named_and_not_analysed(analyze):
    trace = TraceBuilder()
    trace.host().line("python").event("x", 0, 10)
    trace.plane("/device:GPU:0").line("Steps").event("1", 0, 3000)
    report = analyze(trace)
    assert report.verdict.sentence == "Unknown: the trace has 1 x GPU, all without work."
    assert (report.ops, report.environment["device_type"]) == ([], "GPU")


@pytest.mark.shared_traces
@pytest.mark.parametrize("name", ["tl_mi300_jax08_gemm", "tl_mi300_jax08_attention"])
def test_real_gpu_traces(shared_traces, name):
    from tpuprof.analysis.analyze import analyze_run

    path = shared_traces / "gpu" / f"{name}.xplane.pb"
    report = analyze_run(path)
    assert (report.environment["device_type"], report.environment["device_count"]) == ("GPU (AMD)", 1)
    assert report.breakdown["compute"].ms_per_step > 0
    # The kernels' own durations, each counted once.
    plane = next(each for each in load(path).planes if each.name == "/device:GPU:0")
    durations = sum(int(line.duration_ps.sum()) for line in plane.lines)
    assert sum(row.self_ms for row in report.ops) == pytest.approx(durations / 1e9)


@pytest.mark.shared_traces
def test_the_step_of_eight_gpus_is_the_longest_as_in_xprof(shared_traces):
    from tpuprof.analysis.analyze import analyze_run

    report = analyze_run(shared_traces / "gpu" / "tf_gpu_multi_worker.xplane.pb")
    # XProf 2.24: 21.3 ms. The first GPU's own step is 19.9 ms.
    assert report.steps.median_ms == pytest.approx(21.310352)


def kineto(**more):
    """What torch.profiler writes of four steps on one GPU, with copies, NCCL and an overlay of annotations."""
    begin = 1_700_000_000_000_000
    events = [
        {"ph": "M", "name": "process_name", "pid": 100, "tid": 0, "ts": 0, "args": {"name": "python3"}},
        {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "ts": 0, "args": {"name": "python3"}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "ts": 0, "args": {"name": "stream 7 "}},
    ]

    def span(cat, name, start, length, pid=100, tid=100, **args):
        events.append(
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": pid,
                "tid": tid,
                "ts": begin + start,
                "dur": length,
                "args": args,
            }
        )

    for number in range(4):
        at = 1000 * number
        on_gpu = {"device": 0, "correlation": number}
        span("user_annotation", f"ProfilerStep#{number + 3}", at, 1000)
        span("cpu_op", "aten::mm", at + 10, 300)
        span("cuda_runtime", "cudaLaunchKernel", at + 50, 20, correlation=number)
        span("cuda_runtime", "cudaStreamSynchronize", at + 700, 200)
        span("gpu_user_annotation", f"ProfilerStep#{number + 3}", at + 100, 800, pid=0, tid=7, **on_gpu)
        span("kernel", "ampere_sgemm", at + 100, 600, pid=0, tid=7, stream=7, **on_gpu)
        span("kernel", REDUCE, at + 700, 100, pid=0, tid=13, stream=13, **on_gpu)
        span("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", at + 850, 40, pid=0, tid=7, stream=7, **on_gpu)
    return {"schemaVersion": 1, "traceEvents": events, **more}


@pytest.mark.parametrize("more", [{}, {"deviceProperties": [{"id": 0, "name": "NVIDIA A100"}]}])
def test_a_trace_of_torch_profiler_has_its_steps_its_host_and_its_gpu(tmp_path, more):
    from tpuprof.analysis.analyze import analyze_run

    path = tmp_path / "worker.pt.trace.json"
    path.write_text(json.dumps(kineto(**more)), "utf-8")
    report = analyze_run(path)
    assert (report.environment["framework"], report.environment["device_type"]) == ("pytorch", "GPU")
    assert (report.steps.count, report.steps.method) == (4, "torch.profiler steps")
    assert [step.index for step in report.steps.per_step] == [3, 4, 5, 6]
    parts = {name: part.ms_per_step for name, part in report.breakdown.items()}
    assert parts["compute"] == pytest.approx(0.6)
    assert parts["collective_exposed"] == pytest.approx(0.1)
    assert parts["infeed_outfeed"] == pytest.approx(0.04)
    assert report.run_summary.device_busy_share == pytest.approx(0.74)
    assert sum(parts.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("field", ["cat", "correlation"])
@pytest.mark.parametrize("value", [[], {}, [1, "x"], None, True])
def test_a_field_of_another_kind_in_one_event_leaves_the_rest_as_it_is(tmp_path, field, value):
    from tpuprof.analysis.analyze import analyze_run

    document = kineto()
    event = next(each for each in document["traceEvents"] if each.get("cat") == "cpu_op")
    if field == "cat":
        event["cat"] = value
    else:
        event["args"] = {**event["args"], "correlation": value}
    path = tmp_path / "worker.pt.trace.json"
    path.write_text(json.dumps(document), "utf-8")
    assert analyze_run(path).steps.count == 4


class Kineto:
    """What torch.profiler writes, event by event; times in microseconds."""

    def __init__(self):
        self.events = []
        self.correlation = 0

    def host(self, cat, name, start, length, **args):
        span = {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": 9, "ts": start, "dur": length}
        self.events.append({**span, "args": args})

    def launch(self, call, start, kernel, length, cat="kernel", after=5):
        """A call of the runtime, and what the GPU does for it."""
        self.correlation += 1
        self.host("cuda_runtime", call, start, 4, correlation=self.correlation)
        args = {"device": 0, "stream": 7, "correlation": self.correlation}
        span = {"ph": "X", "cat": cat, "name": kernel, "pid": 0, "tid": 7, "ts": start + after, "dur": length}
        self.events.append({**span, "args": args})

    def report(self, folder):
        from tpuprof.analysis.analyze import analyze_run

        path = folder / "worker.pt.trace.json"
        document = {"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": self.events}
        path.write_text(json.dumps(document), "utf-8")
        return analyze_run(path)


def eager(pause=20, ops=("aten::mm", "vendor::norm")):
    """One annotation around 40 ops that launch a kernel of 10 us each, every 100 us; Python functions between them."""
    trace = Kineto()
    trace.host("user_annotation", "execute_context_1", 0, 4000 + pause)
    trace.host("python_function", "model.py(12): forward", 0, 4000 + pause)
    for number in range(40):
        at = 100 * number + (pause if number >= 20 else 0)
        trace.host("cpu_op", ops[number % 2], at, 80)
        trace.launch("cudaLaunchKernel", at + 60, "gemm", 10)
    return trace


def test_calling_ops_while_the_gpu_idles_is_dispatch(tmp_path):
    report = eager().report(tmp_path)
    assert report.steps.whole_capture  # one annotation around all is no step
    assert report.verdict.bound == "dispatch"
    assert "calls ops and launches their kernels one by one" in report.verdict.sentence
    parts = {name: part.ms_per_step for name, part in report.breakdown.items() if part.share}
    assert parts == {"dispatch": pytest.approx(3.62), "compute": pytest.approx(0.4)}


@pytest.mark.parametrize(
    ("iterator", "prefetch", "batch_ms"),
    [("_MultiProcessingDataLoaderIter", "workers", None), ("_SingleProcessDataLoaderIter", "none", 0.05)],
)
def test_a_batch_of_worker_processes_is_not_made_while_training_takes_it(
    tmp_path, iterator, prefetch, batch_ms
):
    trace = eager(pause=100)
    trace.host("user_annotation", f"enumerate(DataLoader)#{iterator}.__next__", 2010, 50)
    (row,) = trace.report(tmp_path).input
    assert (row.prefetch, row.batch_ms) == (prefetch, pytest.approx(batch_ms))


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize(("pause", "rest"), [(270, 0.0), (290, 0.31)])
def test_a_long_pause_between_ops_is_not_dispatch(tmp_path, pause, rest, traced):
    """It is other Python where a tracer shows the functions, else unknown."""
    trace = eager(pause)
    trace.events = [each for each in trace.events if traced or each["cat"] != "python_function"]
    report = trace.report(tmp_path)
    parts = report.breakdown
    found = parts["host:python" if traced else "unknown"].ms_per_step if rest else 0.0
    assert found == pytest.approx(rest, abs=0.03)


@pytest.mark.parametrize(
    ("innermost", "part", "said"),
    [
        ("<built-in function sleep>", "host:sleep", "The host sleeps at model.py:40 (in wait_for_more)"),
        (
            "<built-in method acquire of _thread.lock object at 0x7f00>",
            "host:lock",
            "The host waits for a lock",
        ),
        ("json/decoder.py(10): decode", "host:python", "at model.py:40 (in wait_for_more)"),
        ("torch/nn/modules/module.py(5): _call", "dispatch", "calls ops"),
    ],
)
def test_a_long_pause_is_named_by_the_function_that_a_tracer_shows(tmp_path, innermost, part, said):
    trace = eager(6000)
    trace.host("python_function", "model.py(40): wait_for_more", 2000, 5900)
    trace.host("python_function", innermost, 2001, 5890)
    report = trace.report(tmp_path)
    assert report.breakdown[part].ms_per_step > 5.8
    assert said in report.verdict.sentence
    assert "trace" not in report.verdict.sentence.partition("Low confidence")[0]


@pytest.mark.parametrize(
    ("copy", "part"),
    [
        ("Memcpy DtoD (Device -> Device)", "dispatch"),
        ("Memcpy HtoD (Pageable -> Device)", "host_to_device"),
        ("Memcpy DtoH (Device -> Pageable)", "device_to_host_sync"),
    ],
)
def test_a_copy_on_the_host_counts_by_the_direction_that_the_gpu_shows(tmp_path, copy, part):
    trace = eager()
    trace.correlation += 1
    trace.host("cuda_runtime", "cudaMemcpyAsync", 4030, 1000, correlation=trace.correlation)
    args = {"device": 0, "stream": 7, "correlation": trace.correlation}
    span = {"ph": "X", "cat": "gpu_memcpy", "name": copy, "pid": 0, "tid": 7, "ts": 5020, "dur": 20}
    trace.events.append({**span, "args": args})
    found = {name: part.ms_per_step for name, part in trace.report(tmp_path).breakdown.items()}
    assert found[part] == pytest.approx(0.99 + (3.63 if part == "dispatch" else 0), abs=0.02)


def test_an_item_that_does_not_wait_for_the_gpu_is_no_read(tmp_path):
    trace = eager()
    trace.host("cpu_op", "aten::item", 85, 5)
    trace.host("cpu_op", "aten::item", 185, 8)
    trace.host("cuda_runtime", "cudaStreamSynchronize", 186, 6)
    (read,) = trace.report(tmp_path).host_reads
    assert (read.call, read.occurrences) == ("cudaStreamSynchronize", 1)


def test_a_trace_of_kernels_and_launches_alone_is_of_pytorch(tmp_path):
    trace = Kineto()
    for number in range(40):
        trace.launch("hipExtModuleLaunchKernel", 100 * number, "igemm", 75)
    report = trace.report(tmp_path)
    assert report.environment["framework"] == "pytorch"
    assert report.verdict.bound == "dispatch"
    assert report.breakdown["unknown"].share < 0.001


@pytest.mark.parametrize("thread", [9, 10])
def test_a_backward_pass_on_autograds_thread_is_dispatch_of_the_training_thread(tmp_path, thread):
    trace = eager()
    forward = len(trace.events)
    for number in range(60):
        at = 5000 + 100 * number
        trace.host("cpu_op", "autograd::engine::evaluate_function: MmBackward0", at, 90)
        trace.launch("cudaLaunchKernel", at + 60, "gemm", 10)
    for each in trace.events[forward:]:
        each["tid"] = thread if each["pid"] == 9 else each["tid"]
    trace.host("cpu_op", "aten::add_", 11_000, 50)
    report = trace.report(tmp_path)
    assert report.verdict.bound == "dispatch"
    unexplained = {
        name: each.ms_per_step for name, each in report.breakdown.items() if each.ms_per_step > 0.9
    }
    # A pause of 1 ms before the backward pass, in which no thread does anything.
    assert set(unexplained) == {"dispatch", "compute", "unknown"}
    assert unexplained["unknown"] == pytest.approx(1.0, abs=0.1)
    assert unexplained["dispatch"] > 8


@pytest.mark.parametrize(
    ("left_out", "status"),
    [
        # The model ran on the CPU: nothing is missing.
        (("kernel", "gpu_memcpy", "gpu_user_annotation", "cuda_runtime"), "passed"),
        # It called a GPU, and nothing of that is in the trace.
        (("kernel", "gpu_memcpy", "gpu_user_annotation"), "failed"),
        ((), "passed"),
    ],
)
def test_a_trace_of_the_cpu_alone_is_whole_where_no_gpu_is_called(tmp_path, left_out, status):
    from tpuprof.analysis.analyze import analyze_run

    document = kineto(deviceProperties=[])
    document["traceEvents"] = [each for each in document["traceEvents"] if each.get("cat") not in left_out]
    path = tmp_path / "worker.pt.trace.json"
    path.write_text(json.dumps(document), "utf-8")
    (found,) = [each for each in analyze_run(path).findings if each.rule == "truncated-trace"]
    assert found.status == status


@pytest.mark.parametrize(("count", "said"), [(1000, True), (999, False)])
def test_a_tracer_that_notes_calls_often_is_said_to_slow_the_host(count, said):
    names, span = ["$train.py:3 step", "aten::mm"], 1000 * SLOWS_EVERY_PS
    at = np.arange(count) * (span // count)
    plane = SimpleNamespace(events=SimpleNamespace(names=names))
    driver = SimpleNamespace(
        plane=plane, name_row=np.zeros(count, np.int64), start=at, end=np.append(at[1:], span)
    )
    notes = tracer_note(driver, SimpleNamespace(python_calls=True))
    assert any("calls of Python functions, which slows the host" in note for note in notes) is said
    assert not tracer_note(driver, SimpleNamespace(python_calls=False))
