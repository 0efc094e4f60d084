"""Planes beside the TensorCores': SparseCores; barriers between chips, the allocator's events, names of chips."""

import pytest

from tests.builders import TraceBuilder, op
from tests.model.test_transfers import COMPUTE, GATHER, GATHER_DONE, steps, work
from tpuprof.chips import CHIPS, chip_of, chip_of_slice

SECOND = [0, 1000, 2000]


def test_work_of_a_sparse_core_is_the_span_of_the_transfer_it_runs(analyze):
    trace = TraceBuilder()
    steps(trace)
    work(trace, GATHER, SECOND, 1)
    work(trace, COMPUTE, [b + 10 for b in SECOND], 100)
    work(trace, GATHER_DONE, [b + 300 for b in SECOND], 100)
    sparse = trace.plane("/device:TPU:0 SparseCore 1").line("Sparse Core Ops")
    sparse.repeat(GATHER.replace("-start", ""), SECOND, 390, display="all-gather.4")
    report = analyze(trace)
    (row,) = report.collectives
    assert row.hidden_ms_per_step == pytest.approx(0.100)
    assert row.gb_per_s == pytest.approx(30e6 / 390e-6 / 1e9)
    assert report.compute.sparse_core_ms_per_step == pytest.approx(0.390)
    assert report.compute.sparse_core_hidden_ms_per_step == pytest.approx(0.100)


def test_without_a_sparse_core_plane_its_time_is_unknown(analyze):
    trace = TraceBuilder()
    steps(trace)
    work(trace, COMPUTE, SECOND, 100)
    assert analyze(trace).compute.sparse_core_ms_per_step is None


def test_the_chip_that_waits_least_in_barriers_comes_last(analyze):
    trace = TraceBuilder()
    steps(trace)
    for number, waited in enumerate((10, 40, 25)):
        trace.tpu(number).line("XLA Modules").repeat("f(1)", SECOND, 900)
        trace.tpu(number).line("XLA TraceMe").repeat("barrier-cores", SECOND, waited)
        trace.tpu(number).line("XLA TraceMe").repeat("dependency-wait", [500], 300)
    rows = analyze(trace).hosts.chip_waits
    assert [(row.device, row.barriers, row.waited_ms) for row in rows] == [
        ("/device:TPU:0", 3, pytest.approx(0.030)),
        ("/device:TPU:1", 3, pytest.approx(0.120)),
        ("/device:TPU:2", 3, pytest.approx(0.075)),
    ]
    assert [row.late_ms for row in rows] == [pytest.approx(0.090), 0.0, 0.0]


def test_the_allocator_is_read_by_device(analyze):
    trace = TraceBuilder()
    steps(trace)
    line = trace.host().line("main")
    for at, name, device, used in (
        (10, "MemoryAllocation", 0, 100),
        (20, "MemoryAllocation", 1, 40),
        (30, "MemoryAllocation", 0, 300),
        (40, "MemoryDeallocation", 0, 200),
    ):
        line.event(name, at, 1, index_on_host=device, bytes_allocated=used, bytes_available=1000 - used)
    rows = analyze(trace).memory.allocator
    assert [
        (row.device, row.events, row.most_bytes, row.last_bytes, row.least_free_bytes) for row in rows
    ] == [
        (0, 3, 300, 200, 700),
        (1, 1, 40, 40, 960),
    ]


@pytest.mark.parametrize(("megacore", "peak"), [(1, 275e12), (0, 137.5e12)])
def test_the_peak_of_a_megacore_device_is_that_of_both_cores(analyze, megacore, peak):
    trace = TraceBuilder()
    steps(trace)
    trace.tpu(0).stat(
        device_type_string="TPU v4", peak_teraflops_per_second=137.5, has_megacore=megacore,
    )  # fmt: skip
    environment = analyze(trace).environment
    assert environment["megacore"] is bool(megacore)
    assert environment["peak_flops_per_s"] == peak


@pytest.mark.parametrize(
    ("name", "chip"),
    [
        ("TPU v6 Lite", "v6e"), ("TPU v6e", "v6e"), ("TPU v5 lite", "v5e"), ("TPU v5e", "v5e"), ("TPU v5", "v5p"),
        ("TPU v5p", "v5p"), ("TPU7x", "tpu7x"), ("TPU v7x", "tpu7x"), ("TPU v2", "v2"), ("TPU v3", "v3"), ("TPU v4", "v4"),
    ],
)  # fmt: skip
def test_names_of_chips(name, chip):
    assert chip_of(name) is CHIPS[chip]


def test_no_name_means_two_chips():
    names = [name.lower() for chip in CHIPS.values() for name in chip.names]
    slices = [name for chip in CHIPS.values() for name in chip.slices]
    assert len(set(names)) == len(names)
    assert len(set(slices)) == len(slices)
    assert chip_of("TPU") is None
    assert chip_of_slice("v5litepod") is CHIPS["v5e"]


@pytest.mark.parametrize(("works", "said"), [(390, True), (210, True), (190, False), (0, False)])
def test_a_verdict_says_that_sparse_cores_work_where_no_op_does(analyze, works, said):
    """40 % of each step was "no op that computes or moves data", in which SparseCores gathered rows of tables."""
    trace = TraceBuilder()
    for step in range(4):
        begin = 1000 * step
        trace.tpu(0).line("XLA Modules").event("jit_f(1)", begin, 1000)
        trace.tpu(0).line("XLA Ops").event(**op("fusion.1"), start=begin, duration=600)
        trace.tpu(0).line("XLA Ops").event(**op("sc.1", "custom-call-done"), start=begin + 600, duration=400)
        sparse = trace.plane("/device:TPU:0 SparseCore 1").line("Sparse Core Ops")
        sparse.event("gather.1", begin + 600, works)
    text = analyze(trace).verdict.sentence
    assert text.startswith("Device-bound")
    assert ("its SparseCores work for" in text) is said
    assert ("the trace shows no op that computes" in text) is not said
