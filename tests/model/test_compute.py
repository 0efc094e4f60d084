"""Roofline, MFU, padding, float32 matmuls, layout copies, custom calls."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.model.device.compute import PADDED_FROM

TERA, GIGA = 10**12, 10**9


def step(peaks=True):
    """One step of 1 ms on a device of 100 TFLOP/s and 1000 GB/s."""
    trace = TraceBuilder()
    trace.host().line("python").event("train", 0, 1000, _r=1)
    if peaks:
        trace.tpu(0).stat(peak_teraflops_per_second=100.0, peak_hbm_bw_gigabytes_per_second=1000.0)
    trace.tpu(0).line("XLA Modules").event("f(1)", 0, 1000)
    return trace


def op(trace, line, start, duration, **facts):
    short = line.partition(" = ")[0].lstrip("%")
    trace.tpu(0).line("XLA Ops").event(line, start, duration, display=short, facts=facts)
    return trace


def one(report, name):
    return next(row for row in report.ops if row.name == name)


DOT = "%dot.1 = bf16[512,512]{1,0:T(8,128)} convolution(bf16[512,512]{1,0} %a, bf16[512,512]{1,0} %b)"


@pytest.mark.parametrize(
    ("flops", "size", "limit", "share"),
    [
        (5 * GIGA, 10**6, "compute", 0.5),
        (10**6, 50 * 10**6, "memory", 0.5),
        (10 * GIGA, 100 * 10**6, "compute", 1.0),
    ],
)
def test_roofline(analyze, flops, size, limit, share):
    report = analyze(op(step(), DOT, 0, 100, hlo_category="convolution", flops=flops, bytes_accessed=size))
    row = one(report, "dot.1")
    assert (row.limit, row.roofline) == (limit, pytest.approx(share))
    assert row.flops_per_s == pytest.approx(flops / 100e-6)


def test_mfu_is_flops_in_steps_over_peak(analyze):
    trace = op(step(), DOT, 0, 100, hlo_category="convolution", flops=5 * GIGA)
    op(trace, DOT, 1500, 100, hlo_category="convolution", flops=5 * GIGA)
    assert analyze(trace).compute.mfu == pytest.approx(5 * GIGA / (100 * TERA * 1e-3))


def test_mfu_is_unavailable_without_peaks_or_flops(analyze):
    told = analyze(op(step(peaks=False), DOT, 0, 100, hlo_category="convolution", flops=5)).compute
    assert told.mfu is None and "peak" in told.mfu_note
    told = analyze(op(step(), DOT, 0, 100, hlo_category="convolution")).compute
    assert told.mfu_note == "unavailable: the trace states no FLOPs for its ops"
    told = analyze(op(step(peaks=False), DOT, 0, 100, hlo_category="convolution")).compute
    assert told.mfu_note.endswith("no FLOPs for its ops, nor the device's peak FLOP/s")


def test_a_loop_counts_by_its_body_alone(analyze):
    trace = op(
        step(), "%while.1 = f32[8]{0} while(f32[8]{0} %p)", 0, 100, hlo_category="while", flops=9 * GIGA
    )
    op(trace, DOT, 0, 50, hlo_category="convolution", flops=GIGA)
    report = analyze(trace)
    assert report.compute.flops_per_step == GIGA
    assert one(report, "while.1").roofline is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%d = f32[8,8]{1,0} dot(f32[8,8]{1,0} %a, f32[8,8]{1,0} %b)", "f32"),
        ("%d = f32[8,8]{1,0} dot(bf16[8,8]{1,0} %a, bf16[8,8]{1,0} %b)", "bf16"),
        ("%d = f32[8,8]{1,0} dot(f32[8,8]{1,0} %a, bf16[8,8]{1,0} %b)", "bf16"),
        ("%d = f32[8,8]{1,0} fusion(f32[8,8]{1,0} %a, f32[8,8]{1,0} %b), kind=kOutput", "f32"),
        # It converts before it multiplies, or after: the line does not tell.
        ("%d = bf16[8,8]{1,0} fusion(f32[8,8]{1,0} %a, f32[8,8]{1,0} %b), kind=kOutput", ""),
    ],
)
def test_the_type_a_matmul_reads(analyze, text, expected):
    category = "convolution fusion" if "fusion(" in text else "dot"
    report = analyze(op(step(), text, 0, 100, hlo_category=category))
    assert one(report, "d").matmul_type == expected
    assert report.compute.float32_matmul_ms_per_step == pytest.approx(0.1 if expected == "f32" else 0.0)
    # Its arrays have no tiles: nothing says how they are laid out.
    assert report.compute.unstated == [
        *(["float32_matmul_ms_per_step"] if not expected else []),
        "padded_ms_per_step",
    ]


@pytest.mark.parametrize(
    ("rows", "padded"), [(int(128 / PADDED_FROM) + 1, False), (int(128 / PADDED_FROM), True)]
)
def test_padding_from_tiles(analyze, rows, padded):
    text = f"%add.1 = f32[{rows},128]{{0,1:T(8,128)}} add(f32[{rows},128]{{0,1:T(8,128)}} %a)"
    report = analyze(op(step(), text, 0, 100, hlo_category="add"))
    assert one(report, "add.1").padding == pytest.approx(128 / rows)
    assert (report.compute.padded_ms_per_step > 0) == padded
    assert not report.compute.unstated


def test_copies_that_only_move_data_about(analyze):
    trace = op(step(), "%copy.1 = f32[8,8]{0,1} copy(f32[8,8]{1,0} %a)", 0, 100, hlo_category="copy")
    assert analyze(trace).compute.unstated == ["padded_ms_per_step"]
    op(
        trace,
        "%copy-start.2 = (f32[8]{0:S(1)}, f32[8]{0}) copy-start(f32[8]{0} %a)",
        200,
        50,
        hlo_category="copy-start",
    )
    op(trace, "%copy.3 = f32[8]{0:S(5)} copy(f32[8]{0} %a)", 300, 50, hlo_category="copy")
    assert analyze(trace).compute.layout_copy_ms_per_step == pytest.approx(0.1)


def test_a_pallas_kernel_goes_by_its_name(analyze):
    text = '%flash_attention.3 = f32[8]{0} custom-call(f32[8]{0} %q), custom_call_target="tpu_custom_call"'
    report = analyze(op(step(), text, 0, 100, hlo_category="custom-call"))
    assert one(report, "flash_attention.3").kernel == "flash_attention"
    assert [row.name for row in report.compute.kernels] == ["flash_attention"]


def test_what_the_compiler_keeps_its_books_by_is_no_kernel(analyze):
    text = '%custom-call.3 = f32[8]{0} custom-call(), custom_call_target="AllocateBuffer"'
    report = analyze(op(step(), text, 0, 100, hlo_category="custom-call"))
    assert one(report, "custom-call.3").kernel == ""
    assert report.compute.kernels == []


@pytest.mark.shared_traces
def test_kernels_and_matmuls_of_a_real_model(shared_traces):
    from tpuprof.analysis.analyze import analyze_run

    report = analyze_run(shared_traces / "tpu_vllm_qwen3")
    assert report.compute.matmul_ms_per_step > 0
    assert max((row for row in report.ops if row.kernel), key=lambda row: row.self_ms).kernel.startswith(
        "RPA"
    )
    # Two thirds of an inference step of a dense model are matmuls; they run near a v6e's 918 TFLOP/s.
    best = max(row.flops_per_s for row in report.ops if row.matmul_type == "bf16" and row.flops_per_s)
    assert 700e12 < best < 918e12
