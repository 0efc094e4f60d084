"""Rules through the whole way from a built trace to its findings, on both sides of what makes them fail."""

import json

import pytest

from tests.builders import TraceBuilder
from tests.model.test_hosts import host
from tests.model.test_input_pipeline import trace_of as waiting
from tests.model.test_loops import layers
from tests.model.test_tracing import trace_of as tracing
from tests.model.test_transfers import GATHER, GATHER_DONE, TO_HOST, TO_HOST_DONE, work
from tpuprof.analysis.analyze import analyze_run, report_of
from tpuprof.decode.find import Found
from tpuprof.model.run import build_run

STEPS = 6
BEGINS = [1000 * number for number in range(STEPS)]


@pytest.fixture
def finding(tmp_path):
    """The finding of one rule on a trace, or on several, one a host."""

    def found(rule, *traces, notes=None):
        folder = tmp_path / "run"
        for name, text in (notes or {}).items():
            (folder / "tpuprof").mkdir(parents=True, exist_ok=True)
            (folder / "tpuprof" / name).write_text(text)
        session = folder / "plugins" / "profile" / "one"
        files = {f"host{i}": trace.write(session / f"host{i}.xplane.pb") for i, trace in enumerate(traces)}
        report = report_of(build_run(Found(files, None))) if len(files) > 1 else analyze_run(folder)
        return next(each for each in report.findings if each.rule == rule)

    return found


def busy(flops=0, size=0):
    """Steps of 1 ms that the device is busy with: 900 us of one matrix multiplication, of so many FLOPs and bytes."""
    trace = TraceBuilder()
    trace.host().line("python").repeat("train", BEGINS, 1000, _r=1)
    trace.tpu(0).stat(peak_teraflops_per_second=100.0, peak_hbm_bw_gigabytes_per_second=1000.0)
    trace.tpu(0).line("XLA Modules").repeat("f(1)", BEGINS, 1000)
    if flops or size:
        op(trace, "%dot.1 = bf16[8]{0} dot(bf16[8]{0} %p)", 0, 900, flops=flops, bytes_accessed=size)
    return trace


def op(trace, line, at, duration, category="convolution", **facts):
    name = line.partition(" = ")[0].lstrip("%")
    trace.tpu(0).line("XLA Ops").repeat(
        line, [begin + at for begin in BEGINS], duration, display=name,
        facts={"hlo_category": category, **facts},
    )  # fmt: skip
    return trace


def beside(line, duration, category="convolution"):
    """A device that spends so many of 1,000 us in this op and the rest in additions."""
    trace = op(busy(), line, 0, duration, category)
    return op(
        trace, "%add.1 = bf16[8]{0} add(bf16[8]{0} %p)", duration, 1000 - duration, "non-fusion elementwise"
    )


FLOAT32 = "%dot.3 = f32[512,512]{1,0} dot(f32[512,512]{1,0} %a, f32[512,512]{1,0} %b)"
BFLOAT16 = "%dot.3 = bf16[512,512]{1,0} dot(bf16[512,512]{1,0} %a, bf16[512,512]{1,0} %b)"
COPY = "%copy.3 = bf16[512,512]{0,1} copy(bf16[512,512]{1,0} %a)"
PADDED = (
    "%dot.3 = bf16[512,100]{1,0:T(8,128)} dot(bf16[512,100]{1,0:T(8,128)} %a, bf16[100,100]{1,0:T(8,128)} %b)"
)
WHOLE = (
    "%dot.3 = bf16[512,128]{1,0:T(8,128)} dot(bf16[512,128]{1,0:T(8,128)} %a, bf16[128,128]{1,0:T(8,128)} %b)"
)


@pytest.mark.parametrize(
    ("rule", "line", "duration", "status"),
    [
        ("float32-matmul", FLOAT32, 300, "failed"),
        ("float32-matmul", FLOAT32, 90, "passed"),
        ("float32-matmul", BFLOAT16, 900, "passed"),
        ("layout-copies", COPY, 110, "failed"),
        ("layout-copies", COPY, 90, "passed"),
        ("padded-dimensions", PADDED, 500, "failed"),
        ("padded-dimensions", PADDED, 90, "passed"),
        ("padded-dimensions", WHOLE, 900, "passed"),
    ],
)
def test_what_the_device_does(finding, rule, line, duration, status):
    found = finding(rule, beside(line, duration, "copy" if line is COPY else "convolution"))
    assert found.status == status
    if status == "failed":
        assert f"{duration / 10:.0f} %" in found.title
        assert line.partition(" = ")[0].lstrip("%") in found.evidence[0].text
        assert found.evidence[0].value == pytest.approx(duration / 1000)
        assert found.evidence[0].unit == "ms per step and device"
        assert 0 < found.savings.high <= duration / 1000 * 1.01


@pytest.mark.parametrize(("gflop", "status"), [(29, "failed"), (31, "passed")])
def test_flops_against_the_peak(finding, gflop, status):
    found = finding("low-mxu-utilization", busy(flops=gflop * 10**9))
    assert found.status == status
    assert found.evidence[0].value == pytest.approx(gflop / 100)
    if status == "failed":
        assert found.title == "While busy, the device computes at 29 % of its peak"


@pytest.mark.parametrize(("megabytes", "status"), [(690, "passed"), (710, "failed")])
def test_bytes_against_the_peak(finding, megabytes, status):
    found = finding("memory-bandwidth-bound", busy(flops=10**9, size=megabytes * 10**6))
    assert found.status == status
    assert found.evidence[1].value == pytest.approx(1.0)


def test_ratios_are_unavailable_where_ops_state_no_flops_and_layouts_no_tiles(finding):
    trace = beside(BFLOAT16, 900)
    assert finding("low-mxu-utilization", trace).status == "unavailable"
    assert finding("padded-dimensions", trace).status == "unavailable"


@pytest.mark.parametrize(("exposed", "status"), [(110, "failed"), (90, "passed")])
def test_copies_that_are_waited_for(finding, exposed, status):
    trace = busy()
    work(trace, TO_HOST, BEGINS, 1)
    work(trace, TO_HOST_DONE, [b + 300 for b in BEGINS], exposed)
    work(trace, TO_HOST, BEGINS, 300 + exposed, line="Async XLA Ops")
    found = finding("exposed-host-offload", trace)
    assert found.status == status
    assert "begun 299 µs before its wait" in found.evidence[0].text
    if status == "failed":
        assert found.savings.high == pytest.approx(exposed / 1000, rel=0.06)


@pytest.mark.parametrize(("exposed", "status"), [(110, "failed"), (90, "passed")])
def test_collectives_that_are_waited_for(finding, exposed, status):
    trace = busy()
    work(trace, GATHER, BEGINS, 1)
    work(trace, GATHER_DONE, [b + 300 for b in BEGINS], exposed)
    assert finding("exposed-collectives", trace).status == status
    assert finding("exposed-parameter-gather", trace).status == "not_applicable"


def test_tracing_names_its_phases(finding):
    found = finding("tracing-bound", tracing())
    assert found.status == "failed"
    texts = [each.text for each in found.evidence]
    assert "tracing in Python and dispatch that leaves the device idle" in texts
    assert "tracing in forward that leaves the device idle" in texts


@pytest.mark.parametrize(("calls", "status"), [(0, "not_applicable"), (1, "passed"), (3, "passed")])
def test_scans_that_run_in_steps_of_little_tracing_do_not_trace_their_bodies(finding, calls, status):
    """Steps of a millisecond."""
    assert finding("scan-cache-off", tracing(scan=calls)).status == status


@pytest.mark.parametrize(
    ("wait", "making", "told"),
    [(300, None, "none ahead"), (300, 950, "longer than training"), (300, 400, "too few ahead")],
)
def test_input_is_waited_for_and_why(finding, wait, making, told):
    found = finding("input-starved", waiting(wait=wait, making=making))
    assert found.status == "failed"
    assert any(told in each.text for each in found.evidence)


def test_input_that_is_hardly_waited_for(finding):
    assert finding("input-starved", waiting(wait=90)).status == "passed"


@pytest.mark.parametrize(
    ("rule", "idle"), [("tracing-bound", None), ("input-starved", "tpuprof.dataloader.next")]
)
def test_a_title_states_the_share_of_all_steps_that_the_verdict_states(tmp_path, rule, idle):
    """Ten steps lose 200 of 1,000 us, two lose 3,200 of 4,000: 47 % of all of it, and 20 % of a typical one."""
    trace, begin = TraceBuilder(), 0
    for number in range(12):
        wall, lost = (4000, 3200) if number in (4, 8) else (1000, 200)
        python = trace.host().line("python").event("train", begin, wall, _r=1)
        python.event("SyncTensorsGraph", begin + (lost if idle else 0), wall - (lost if idle else 0))
        if idle:
            python.event(idle, begin, lost)
        trace.tpu(0).line("XLA Modules").event("f(1)", begin + lost, wall - lost)
        begin += wall
    report = analyze_run(trace.write(tmp_path / "host.xplane.pb"))
    found = next(each for each in report.findings if each.rule == rule)
    assert found.status == "failed"
    assert "47 % of the steps' time" in report.verdict.sentence
    assert report.verdict.sentence.endswith("2 of 12 steps take 4.00 ms, and the median step takes 1.00 ms.")
    assert "47 % of the steps' time" in found.title
    assert found.confidence != "low" and "inconsistent" not in found.reason


def test_a_slow_loader_counts_though_most_steps_do_not_wait(finding):
    """A queue that is refilled with several batches at once: every fourth step waits for all of them."""
    trace = TraceBuilder()
    python, loader = trace.host().line("python"), trace.host().line("loader")
    begin = 0
    for number in range(12):
        wait = 3000 if number % 4 == 0 else 0
        python.event("train", begin, wait + 100, _r=1)
        python.event("SyncTensorsGraph", begin + wait + 90, 5)
        if wait:
            python.event("tpuprof.dataloader.next", begin, wait)
            loader.repeat("cpu_loader.next", [begin + 800 * each for each in range(4)], 790)
        trace.tpu(0).line("XLA Modules").event("f(1)", begin + wait, 80)
        begin += wait + 100
    found = finding("input-starved", trace)
    assert found.status == "failed"
    assert found.severity > 0.8
    assert any("longer than training" in each.text for each in found.evidence)


def test_the_line_that_waits_for_data_is_in_the_title(finding):
    trace = waiting(wait=300)
    for begin in BEGINS[:4]:
        frames = "train (/u/train.py:14);_try_get_data (/v/torch/utils/data/dataloader.py:1251)"
        trace.sampled(
            begin, 300, cpu=0, stack=1, frames=frames, call="self._data_queue.get(timeout=timeout)",
            source="/u/train.py:14", user_call="for x in loader:",
        )  # fmt: skip
    found = finding("input-starved", trace)
    assert "for data, at /u/train.py:14 (for x in loader:)" in found.title
    assert any("worker processes make the batches" in each.text for each in found.evidence)


_WAITS = "_try_get_data (/v/torch/utils/data/dataloader.py:1251)"
_STARTS = "_get_iterator (/v/torch/utils/data/dataloader.py:427);start (/lib/multiprocessing/process.py:121)"
_ENDS = "_shutdown_workers (/v/torch/utils/data/dataloader.py:1618)"


@pytest.mark.parametrize(
    ("stacks", "restarts"),
    [
        ([_STARTS, _WAITS, _ENDS, _WAITS], True),
        ([_STARTS, _WAITS, _WAITS, _WAITS], True),
        ([_ENDS, _WAITS, _WAITS, _WAITS], True),
        ([_WAITS] * 4, False),
        # A function of the program's own that has the same name.
        (["_get_iterator (/u/train.py:7)", _WAITS, _WAITS, _WAITS], False),
    ],
)
def test_workers_that_start_in_each_epoch_are_no_slow_workers(finding, stacks, restarts):
    """Without `persistent_workers` epochs of 5 steps took three times as long, and more workers were advised."""
    trace = waiting(wait=300)
    for begin, inside in zip(BEGINS, stacks, strict=False):
        trace.sampled(
            begin, 300, cpu=0, stack=1 + stacks.index(inside), frames=f"train (/u/train.py:14);{inside}",
            call="poll(timeout)", source="/u/train.py:14", user_call="for x in loader:",
        )  # fmt: skip
    found = finding("input-starved", trace)
    assert any("new ones start" in each.text for each in found.evidence) is restarts
    assert ("persistent_workers=True" in found.fix.text) is restarts
    assert ("start more" in found.fix.text) is not restarts


@pytest.mark.parametrize(("lag", "status"), [(40, "passed"), (60, "failed")])
def test_one_host_of_two_comes_late(finding, lag, status):
    found = finding("straggler-host", host((0, lag)), host((lag, lag)))
    assert found.status == status
    if status == "failed":
        assert found.title == "host1 holds the other hosts up by 60.0 µs per step"
        assert "all-reduce.1" in found.evidence[1].text


def test_one_host_alone_has_no_straggler(finding):
    assert finding("straggler-host", host((0, 0))).status == "not_applicable"


def test_layers_that_stand_many_times_in_a_predicted_program_are_not_held_against_it(finding):
    trace = busy()
    layers(trace, BEGINS, 8, scope="Decoder.1/layers.{0}.2/")
    info = {"schema": "tpuprof.run/1", "predicted": True}
    found = finding("unrolled-layers", trace, notes={"run.json": json.dumps(info)})
    assert (found.status, found.evidence[0].value) == ("unavailable", 8)
    assert "predicted run" in found.reason


def idles_in_one(extra):
    """Six steps, the device busy for most of each; one idles so much longer."""
    return idles_in({3: (extra, "tpuprof.checkpoint")}, STEPS)


def idles_in(slow, steps):
    """So many steps; of those in `slow` each idles so much longer (us), inside an event where one is named."""
    trace = TraceBuilder()
    python, at = trace.host().line("python"), 0
    for number in range(steps):
        extra, event = slow.get(number, (0, ""))
        python.event("train", at, 1000 + extra, _r=1, step_num=number)
        if event:
            python.event(event, at, extra)
        python.event("SyncLiveTensorsGraph", at + extra, 10)
        trace.tpu(0).line("XLA Modules").event("f(1)", at + extra + 100, 900)
        at += 1000 + extra
    return trace


@pytest.mark.parametrize(("extra", "status"), [(1000, "failed"), (500, "passed")])
def test_one_step_idles(finding, extra, status):
    found = finding("uneven-steps", idles_in_one(extra))
    assert found.status == status
    if status == "failed":
        assert (
            found.title
            == "1 of 6 steps takes longer (2.00 ms, the others 1.00 ms), mostly for checkpoint: 14 % of the time"
        )
        assert (found.confidence, found.savings.low) == ("low", 0.0)
        assert found.evidence[0].step == 3


@pytest.mark.parametrize(("compiles", "status"), [(100, "passed"), (0, "failed")])
def test_a_step_that_compiles_is_not_uneven_for_what_else_takes_longer_in_it(finding, compiles, status):
    trace = idles_in_one(1500)
    if compiles:
        trace.host().line("pool").event(
            "XLAGraphExecutor::Compile", 3 * 1000 + 1500, compiles, graph_hash="h"
        )
    assert finding("uneven-steps", trace).status == status


def test_slow_steps_of_another_cause_or_of_none_do_not_count(finding):
    """Two checkpoints, one collection of garbage that takes less, and two steps in which nothing was seen."""
    save, collect = (1000, "tpuprof.checkpoint"), (900, "tpuprof.gc")
    found = finding(
        "uneven-steps", idles_in({2: save, 5: (1500, ""), 8: save, 10: collect, 12: (1500, "")}, 14)
    )
    assert found.status == "failed"
    # 2.0 of 19.9 ms: the steps of other causes cost more together, and stay.
    assert found.title == (
        "2 of 14 steps take longer (2.00 ms in the median, the usual step 1.00 ms; 3 more steps are slow for other reasons), "
        "mostly for checkpoint: 10 % of the time"
    )
    assert found.savings.high <= 2.0 / 14 + 0.01


def test_one_slow_step_beside_one_of_another_cause(finding):
    """ "1 of 15 steps takes longer (81.4 ms, the others 26.4 ms)" was said where another one took 85.6 ms."""
    found = finding("uneven-steps", idles_in({2: (2000, "tpuprof.checkpoint"), 5: (1900, "")}, 8))
    assert found.title == (
        "1 of 8 steps takes longer (3.00 ms, the usual step 1.00 ms; 1 more step is slow for another reason), mostly for checkpoint: "
        "17 % of the time"
    )


def test_slow_steps_of_no_cause_that_costs_enough_are_shown_alone(finding):
    slow = {2: (500, "tpuprof.checkpoint"), 5: (1500, ""), 8: (1500, "")}
    found = finding("uneven-steps", idles_in(slow, 14))
    assert (found.status, found.title) == (
        "passed",
        "3 of 14 steps take longer; no recurring cause was seen",
    )


def telemetry(**counters):
    before = {
        "step": 0,
        "wall_ns": 31 * 10**9,
        "captured": False,
        "compiles": [{"graphs": 1, "seconds": 30.0, "frames": []}],
    }
    after = {"step": 1, "wall_ns": 1, "captured": True, "counters": counters, "compiles": []}
    line = "aten::histc"
    after["fallbacks"] = {line: "train.py:9"} if line in counters else {}
    return json.dumps(before) + "\n" + json.dumps(after)


def noted(path="", **counters):
    info = {"schema": "tpuprof.run/1", "compilation_cache": {"path": path}}
    return {"run.json": json.dumps(info), "telemetry.host0.0.jsonl": telemetry(**counters)}


def idle():
    trace = TraceBuilder()
    trace.host().line("python").repeat("train", BEGINS, 1000, _r=1)
    trace.tpu(0).line("XLA Modules").repeat("f(1)", BEGINS, 300)
    return trace


def test_fallbacks_have_their_line(finding):
    found = finding("aten-fallback", idle(), notes=noted(**{"aten::histc": 2}))
    assert found.status == "failed"
    assert found.title == "aten::histc at train.py:9 falls back to the host 2 times per step"
    assert (found.evidence[0].value, found.evidence[0].source) == (2.0, "train.py:9")


@pytest.mark.parametrize(
    ("path", "counters", "off", "ineffective"),
    [
        ("", {}, "failed", "not_applicable"),
        ("/c", {"PersistentCacheMiss": 3}, "not_applicable", "passed"),
        ("/c", {"PersistentCacheHit": 3}, "not_applicable", "passed"),
        ("/c", {"PersistentCacheHit": 3, "PersistentCacheDeserializeFailure": 3}, "not_applicable", "failed"),
    ],
)
def test_the_persistent_cache(finding, path, counters, off, ineffective):
    notes = noted(path, **counters)
    assert finding("persistent-cache-off", idle(), notes=notes).status == off
    assert finding("persistent-cache-ineffective", idle(), notes=notes).status == ineffective


@pytest.mark.parametrize(("root", "status"), [("/c", "not_applicable"), ("", "failed")])
def test_torch_tpu_s_cache_is_on_by_a_variable(finding, root, status):
    info = {"schema": "tpuprof.run/1", "environment": {"TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT": root}}
    notes = {**noted(), "run.json": json.dumps(info)}
    assert finding("persistent-cache-off", idle(), notes=notes).status == status


def test_without_counters_nothing_is_said_of_the_cache(finding):
    assert finding("persistent-cache-off", idle()).status == "unavailable"
    assert finding("persistent-cache-ineffective", idle()).status == "unavailable"


def test_a_finding_points_at_the_longest_stretches_of_what_it_holds_up(finding):
    found = finding("exposed-collectives", waited(110, 150))
    placed = [each for each in found.evidence if each.start_ns is not None]
    assert [(each.step, each.value) for each in placed] == [
        (1, pytest.approx(0.15)),
        (0, pytest.approx(0.11)),
        (2, pytest.approx(0.11)),
    ]
    assert placed[0].start_ns == (BEGINS[1] + 300) * 1000
    assert all(each.duration_ms == each.value for each in placed)


def test_a_finding_says_what_mean_step_its_fix_would_leave(finding):
    savings = finding("exposed-collectives", waited(110, 110)).savings
    assert savings.step_low_ms == pytest.approx(1.0 - savings.high)
    assert savings.step_high_ms == pytest.approx(1.0 - savings.low)
    assert savings.step_low_ms < savings.step_high_ms < 1.0


def waited(usual, second):
    """A trace whose device waits so long for a gather in each step, and in the second."""
    trace = busy()
    work(trace, GATHER, BEGINS, 1)
    work(trace, GATHER_DONE, [begin + 300 for begin in BEGINS if begin != BEGINS[1]], usual)
    work(trace, GATHER_DONE, [BEGINS[1] + 300], second)
    return trace


def broken(parts=4, read=0):
    """Steps of 10 ms of torch_xla that call so many functions of torch.compile, and their backward passes.

    Calls take 100 us, 400 us apart; between the first two the host may read a value for so long (us), while the device
    works.
    """
    trace = TraceBuilder()
    main, autograd = trace.host().line("python"), trace.host().line("pt_autograd_0")
    modules = trace.tpu(0).line("XLA Modules")
    for begin in range(0, 100_000, 10_000):
        main.event("train", begin, 10_000, _r=1)
        at = [begin + 500 * part + (read if part else 0) for part in range(parts)]
        main.repeat("ExecuteComputationWithBarrier", at, 100)
        autograd.repeat(
            "ExecuteComputationWithBarrier", [begin + 6000 + 500 * part for part in range(parts)], 100
        )
        if read:
            main.event("tpuprof.host_read", begin + 100, read + 400, call="__bool__")
        main.event("SyncLiveTensorsGraph", begin + 9000, 200)
        modules.event("f(1)", begin + 50, max(read + 400, 300)).event("f(1)", begin + 9200, 300)
    return trace


def breaks(*lines):
    rows = [{"source": line, "reason": "", "function": "forward"} for line in lines]
    return {"run.json": json.dumps({"schema": "tpuprof.run/1", "dynamo": {"breaks": rows} if rows else {}})}


def test_graph_breaks_of_torch_xla(finding):
    found = finding("graph-breaks", broken(), notes=breaks("train.py:20"))
    assert (found.status, found.savings) == ("failed", None)
    # Of four calls in 1600 us all but one, forward and backward.
    assert (
        found.title == "The graph of torch.compile breaks at train.py:20: calling all but one part of a pass "
        "(4 forward and 4 backward), and what is between them, takes 30 % of the step"
    )


@pytest.mark.parametrize(("read", "milliseconds"), [(0, 3.0), (2000, 2.65)])
def test_a_wait_at_a_break_for_a_device_that_works_is_none_of_its_cost(finding, read, milliseconds):
    found = finding("graph-breaks", broken(read=read), notes=breaks("train.py:20"))
    assert found.evidence[2].value == pytest.approx(milliseconds, abs=0.01)


def test_one_function_of_torch_xla_has_no_break(finding):
    assert finding("graph-breaks", broken(parts=1), notes=breaks("eval.py:3")).status == "passed"
