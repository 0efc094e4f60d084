"""Figures of ops that break the chip's peaks, traffic that stays on the chip, and FLOPs of kernels."""

import pytest

from tests.model.test_compute import DOT, GIGA, one, op, step

VMEM = "%copy.1 = bf16[512,512]{1,0:T(8,128)(2,1)S(1)} copy(bf16[512,512]{0,1:T(8,128)(2,1)S(1)} %a)"
MIXED = "%copy.2 = bf16[512,512]{1,0:T(8,128)(2,1)S(1)} copy(bf16[512,512]{0,1:T(8,128)(2,1)} %a)"
HALF_MB = 512 * 512 * 2
FLASH = (
    "%{name}.1 = bf16[2,8,1024,128]{{3,2,1,0}} custom-call(bf16[2,8,1024,128]{{3,2,1,0}} %q, "
    "bf16[2,2,2048,128]{{3,2,1,0}} %k, bf16[2,2,2048,128]{{3,2,1,0}} %v), "
    'custom_call_target="tpu_custom_call", operand_layout_constraints={{}}'
)


def access(kind, space, size):
    """One entry of a memory access breakdown, as the profiler serializes it."""
    number = []
    while size > 0x7F:
        number.append(size & 0x7F | 0x80)
        size >>= 7
    entry = bytes([0x08, kind, 0x10, space, 0x18, *number, size])
    return bytes([0x0A, len(entry)]) + entry


@pytest.mark.parametrize(("flops", "roofline"), [(10 * GIGA, 1.0), (11 * GIGA, 1.0), (12 * GIGA, None)])
def test_an_op_above_its_roofline_is_inconsistent(analyze, flops, roofline):
    trace = op(step(), DOT, 0, 100, hlo_category="convolution", flops=flops, bytes_accessed=1000)
    report = analyze(trace)
    row = one(report, "dot.1")
    assert row.roofline == (None if roofline is None else pytest.approx(roofline))
    wrong = [each for each in report.warnings if "inconsistent" in each]
    assert bool(wrong) is (roofline is None)
    if roofline is None:
        assert (row.limit, row.flops_per_s) == ("", None)
        assert (
            row.note
            == "inconsistent: its speed is 120 % of its roofline, above what the chip's compute allows"
        )
        assert wrong[0].startswith("inconsistent: figures of 1 op are not shown (dot.1: ")


def test_mfu_of_289_percent_is_inconsistent(analyze):
    trace = op(step(), DOT, 0, 900, hlo_category="convolution", flops=289 * GIGA)
    report = analyze(trace)
    assert report.compute.mfu is None
    assert report.compute.mfu_note.startswith("inconsistent: MFU is 289 %, above what the chip can do")
    assert report.compute.mfu_note in report.warnings


@pytest.mark.parametrize("duration", [0, -5])
def test_a_negative_duration_is_said(analyze, duration):
    report = analyze(op(step(), DOT, 900, duration))
    said = [each for each in report.warnings if "negative" in each]
    assert said == (
        [
            "host0: /device:TPU:0: inconsistent: 1 events have negative durations and count as 0 ms: "
            "the profile is damaged"
        ]
        if duration < 0
        else []
    )


@pytest.mark.parametrize(
    ("line", "facts", "in_hbm"),
    [
        (VMEM, {}, 0),
        (MIXED, {}, HALF_MB),
        (VMEM, {"memory_access_breakdown": access(1, 1, 300) + access(2, 3, 500)}, 300),
        (DOT, {"memory_access_breakdown": access(1, 3, 500)}, 0),
        (DOT, {}, 2 * HALF_MB),
    ],
)
def test_only_hbm_traffic_counts_against_hbm(analyze, line, facts, in_hbm):
    name = line.partition(" = ")[0].lstrip("%")
    trace = op(step(), line, 0, 100, hlo_category="copy", bytes_accessed=2 * HALF_MB, **facts)
    row = one(analyze(trace), name)
    assert (row.bytes, row.hbm_bytes) == (2 * HALF_MB, in_hbm)
    assert row.bytes_per_s == (pytest.approx(in_hbm / 100e-6) if in_hbm else None)


@pytest.mark.parametrize(
    ("name", "multiplications"),
    [("flash_attention", 2), ("splash_mha_fwd_residuals", 2), ("splash_mha_dq", 3), ("flash_mha_bwd_dkv", 4)],
)
def test_attention_kernels_count_their_matmuls_from_their_shapes(analyze, name, multiplications):
    trace = op(step(), FLASH.format(name=name), 0, 900, hlo_category="custom-call", flops=7)
    row = one(analyze(trace), f"{name}.1")
    # Causal at least: half of the blocks.
    assert row.flops == multiplications * 2 * 2 * 8 * 1024 * 2048 * 128 // 2


def test_mfu_with_a_kernel_of_unknown_flops_is_a_lower_bound(analyze):
    trace = op(step(), DOT, 0, 100, hlo_category="convolution", flops=5 * GIGA)
    op(trace, FLASH.format(name="ragged_thing"), 200, 100, hlo_category="custom-call")
    assert analyze(trace).compute.mfu_note.startswith("a lower bound: ragged_thing states no FLOPs")


def test_a_copy_faster_than_any_link_has_no_rate(analyze):
    from tests.builders import TraceBuilder
    from tests.model.test_transfers import MB, TO_HOST, steps, work

    trace = TraceBuilder()
    steps(trace)
    trace.tpu(0).stat(device_type_string="TPU v6 Lite")
    work(trace, TO_HOST, [0, 1000, 2000], 1)
    work(trace, TO_HOST, [0, 1000, 2000], 400, line="Async XLA Ops", size=30 * MB)
    (row,) = analyze(trace).offload
    assert row.gb_per_s is None
    assert row.note.startswith("inconsistent: its rate is 75 GB/s, above the link's 64.0 GB/s")


@pytest.mark.parametrize(("device", "known"), [("TPU v6 Lite", False), ("TPU v5p", True)])
def test_a_peak_above_the_memory_of_a_program_that_ran_is_inconsistent(monkeypatch, device, known):
    from types import SimpleNamespace

    from tpuprof.analysis.sections.memory import memory_section
    from tpuprof.chips import chip_of
    from tpuprof.model.device.memory import DeviceMemory

    found = DeviceMemory("f(1)", 40 << 30, chip_of(device).hbm_usable_bytes)
    run = SimpleNamespace(info={}, hosts=[SimpleNamespace(memory=found, allocated=[], name="host0")])
    memory = memory_section(run)
    assert (memory.peak_bytes is not None) is known
    assert memory.unavailable == (
        "" if known else "inconsistent: peak HBM is 40.0 GiB, above the 31.2 GiB that a program can use"
    )


@pytest.mark.parametrize(
    ("duration", "wrong"), [(1000, False), (1150, False), (1160, True), (9_000_000, True)]
)
def test_an_op_that_takes_longer_than_programs_ran_is_inconsistent(analyze, duration, wrong):
    trace = op(step(), DOT, 0, duration, hlo_category="convolution")
    report = analyze(trace)
    assert ("above the time that programs ran" in one(report, "dot.1").note) is wrong
    assert any("above the time that programs ran" in each for each in report.warnings) is wrong
