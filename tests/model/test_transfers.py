"""Copies to host memory and collectives: direction, bytes, rates, exposed and hidden time."""

import pytest

from tests.builders import TraceBuilder

MB = 1_000_000
TO_HOST = "%copy-start.1 = (f32[8]{0:S(5)}, f32[8]{0}, u32[]{:S(2)}) copy-start(f32[8]{0} %grad.7)"
TO_HOST_DONE = (
    "%copy-done.1 = f32[8]{0:S(5)} copy-done((f32[8]{0:S(5)}, f32[8]{0}, u32[]{:S(2)}) %copy-start.1)"
)
FROM_HOST = "%copy-start.2 = (f32[8]{0}, f32[8]{0:S(5)}, u32[]{:S(2)}) copy-start(f32[8]{0:S(5)} %param.3)"
FROM_HOST_DONE = "%copy-done.2 = f32[8]{0} copy-done((f32[8]{0}, f32[8]{0:S(5)}, u32[]{:S(2)}) %copy-start.2)"
GATHER = "%all-gather-start.4 = (bf16[8]{0}, bf16[32]{0}) all-gather-start(bf16[8]{0} %w.1), dimensions={0}"
GATHER_DONE = (
    "%all-gather-done.4 = bf16[32]{0} all-gather-done((bf16[8]{0}, bf16[32]{0}) %all-gather-start.4)"
)


COMPUTE = "%fusion.1 = f32[8]{0} fusion(f32[8]{0} %p), kind=kLoop"


def steps(trace, count=3):
    trace.host().line("python").repeat("train", [1000 * i for i in range(count)], 1000, _r=1)
    trace.tpu(0).line("XLA Modules").repeat("f(1)", [1000 * i for i in range(count)], 1000)


def work(trace, name, starts, duration, *, line="XLA Ops", size=30 * MB):
    short = name.partition(" = ")[0].lstrip("%")
    facts = {"hlo_category": short.rpartition(".")[0], "bytes_accessed": size}
    trace.tpu(0).line(line).repeat(name, starts, duration, display=short, facts=facts)


def test_direction_bytes_rate_exposed_and_hidden(analyze):
    trace = TraceBuilder()
    steps(trace)
    begins = [0, 1000, 2000]
    work(trace, TO_HOST, begins, 1)
    work(trace, COMPUTE, [b + 50 for b in begins], 200)
    work(trace, TO_HOST_DONE, [b + 300 for b in begins], 99)
    work(trace, TO_HOST, begins, 400, line="Async XLA Ops")
    work(trace, FROM_HOST, [b + 500 for b in begins], 1)
    work(trace, FROM_HOST_DONE, [b + 700 for b in begins], 149)
    work(trace, FROM_HOST, [b + 500 for b in begins], 300, line="Async XLA Ops")
    report = analyze(trace)
    back, out = report.offload
    assert (out.kind, out.tensor, out.bytes, out.occurrences) == ("device_to_host", "grad.7", 30 * MB, 3)
    assert (back.kind, back.tensor) == ("host_to_device", "param.3")
    assert out.exposed_ms_per_step == pytest.approx(0.100)
    # The device computes for 200 of the 400 us, and idles for 100 of them: idle time hides nothing.
    assert out.hidden_ms_per_step == pytest.approx(0.200)
    assert out.waiting_ms_per_step == 0.0
    assert out.gb_per_s == pytest.approx(30e6 / 400e-6 / 1e9)
    assert out.gb_per_s_alone == pytest.approx(out.gb_per_s)
    assert back.exposed_ms_per_step == pytest.approx(0.150)
    assert report.to_dict()["offload"][0]["direction"] == "host_to_device"


def test_an_op_of_a_program_that_began_before_the_capture_belongs_to_the_program(analyze):
    """The first end of a copy has no program around it: start and end were two copies with the bytes of both."""
    trace = TraceBuilder()
    steps(trace)
    for plane in trace.space.planes:
        for line in plane.lines:
            for event in line.events:
                event.offset_ps += 500 * 1_000_000
    begins = [500, 1500, 2500]
    work(trace, FROM_HOST_DONE, [100, *(b + 700 for b in begins)], 149)
    work(trace, FROM_HOST, [b + 500 for b in begins], 1)
    work(trace, FROM_HOST, [b + 500 for b in begins], 300, line="Async XLA Ops")
    (copy,) = analyze(trace).offload
    assert (copy.name, copy.bytes, copy.occurrences) == ("copy-start.2", 30 * MB, 3)


@pytest.mark.parametrize(("gb", "needs"), [(0.4, True), (40.0, False)])
def test_a_link_does_not_need_longer_for_a_step_than_the_step(analyze, gb, needs):
    """At a chip's 32 GB/s or so 40 GB take longer than 1 ms: then the bytes or the rate are wrong."""
    trace = TraceBuilder()
    steps(trace)
    size = round(gb * 25 * MB)
    work(trace, FROM_HOST_DONE, [700, 1700, 2700], 250, size=size)
    work(trace, FROM_HOST, [400, 1400, 2400], 1, size=size)
    trace.tpu(0).stat(device_type_string="TPU v6 Lite")
    found = next(each for each in analyze(trace).findings if each.rule == "exposed-host-offload")
    assert found.status == "failed"
    assert ("the link needs at least" in found.title) is needs


def test_a_copy_behind_another_exposed_copy_is_not_hidden(analyze):
    trace = TraceBuilder()
    steps(trace)
    begins = [0, 1000, 2000]
    work(trace, TO_HOST, begins, 1)
    work(trace, FROM_HOST, [b + 1 for b in begins], 1)
    work(trace, FROM_HOST_DONE, [b + 2 for b in begins], 298)
    work(trace, COMPUTE, [b + 300 for b in begins], 40)
    work(trace, TO_HOST_DONE, [b + 340 for b in begins], 60)
    work(trace, TO_HOST, begins, 400, line="Async XLA Ops")
    work(trace, FROM_HOST, [b + 1 for b in begins], 299, line="Async XLA Ops")
    out = next(row for row in analyze(trace).offload if row.kind == "device_to_host")
    assert out.hidden_ms_per_step == pytest.approx(0.040)
    assert out.waiting_ms_per_step == pytest.approx(0.299)
    assert out.exposed_ms_per_step == pytest.approx(0.061)


@pytest.mark.parametrize(("stated", "moved"), [(1, 1), (2, 1), (3, 1), (2.5, 2.5), (4, 4)])
def test_bytes_that_count_a_copied_tensor_twice_or_three_times(analyze, stated, moved):
    trace = TraceBuilder()
    steps(trace)
    copy = TO_HOST.replace("f32[8]{0", "f32[1000]{0")
    work(trace, copy, [0, 1000, 2000], 1, size=int(4000 * stated))
    work(trace, copy, [0, 1000, 2000], 400, line="Async XLA Ops")
    (row,) = analyze(trace).offload
    assert row.bytes == 4000 * moved


def test_a_collective_that_is_one_op_hides_nothing(analyze):
    trace = TraceBuilder()
    steps(trace)
    reduced = "%all-reduce.3 = f32[8]{0} all-reduce(f32[8]{0} %g), to_apply=%sum"
    work(trace, reduced, [100, 1100, 2100], 50)
    (row,) = analyze(trace).collectives
    assert (row.exposed_ms_per_step, row.hidden_ms_per_step) == (pytest.approx(0.050), 0.0)
    assert (row.waiting_ms_per_step, row.gb_per_s, row.note) == (0.0, None, "")


@pytest.mark.parametrize(("without_length", "known"), [(1, True), (2, False)])
def test_spans_without_length_give_no_rate_and_no_hidden_time(analyze, without_length, known):
    trace = TraceBuilder()
    steps(trace)
    begins = [0, 1000, 2000]
    work(trace, TO_HOST, begins, 1)
    work(trace, TO_HOST_DONE, [b + 300 for b in begins], 99)
    work(trace, TO_HOST, begins[without_length:], 400, line="Async XLA Ops")
    work(trace, TO_HOST, begins[:without_length], 0, line="Async XLA Ops")
    (row,) = analyze(trace).offload
    assert (row.gb_per_s is not None, row.hidden_ms_per_step is not None) == (known, known)
    assert row.note == ("" if known else "inconsistent: most of its asynchronous spans have no length")


def test_sharing_the_link_is_told_from_having_it_alone(analyze):
    trace = TraceBuilder()
    steps(trace)
    for name, done, start in ((TO_HOST, TO_HOST_DONE, 0), (FROM_HOST, FROM_HOST_DONE, 200)):
        starts = [start + 1000 * i for i in range(3)]
        work(trace, name, starts, 1)
        work(trace, done, [s + 500 for s in starts], 10)
        # In the last step both have the link for themselves, one after the other.
        work(trace, name, starts[:2], 400, line="Async XLA Ops")
        work(trace, name, [2000 + 2 * start], 200, line="Async XLA Ops")
    for row in analyze(trace).offload:
        assert row.gb_per_s == pytest.approx(30e6 / 400e-6 / 1e9)
        assert row.gb_per_s_alone == pytest.approx(30e6 / 200e-6 / 1e9)


def test_copies_of_one_direction_wait_for_each_other(analyze):
    trace = TraceBuilder()
    steps(trace)
    second = (
        FROM_HOST.replace("copy-start.2", "copy-start.9"),
        FROM_HOST_DONE.replace("copy-done.2", "copy-done.9"),
    )
    for (name, done), length in (((FROM_HOST, FROM_HOST_DONE), 200), (second, 400)):
        starts = [0, 1000, 2000]
        work(trace, name, starts, 1)
        work(trace, done, [s + length for s in starts], 1)
        work(trace, name, starts, length, line="Async XLA Ops")
    rows = {row.name: row for row in analyze(trace).offload}
    assert rows["copy-start.2"].gb_per_s_alone == pytest.approx(30e6 / 200e-6 / 1e9)
    # The other one is 400 us in the queue, of which it moves for 200.
    assert rows["copy-start.9"].gb_per_s == pytest.approx(30e6 / 400e-6 / 1e9)
    assert rows["copy-start.9"].gb_per_s_alone == pytest.approx(30e6 / 200e-6 / 1e9)
    assert rows["copy-start.9"].ahead_ms == pytest.approx(0.399)


@pytest.mark.parametrize(("turn", "told"), [(18, False), (25, True)])
def test_a_copy_that_ends_with_the_one_before_it_has_no_rate_alone(analyze, turn, told):
    trace = TraceBuilder()
    steps(trace)
    other = FROM_HOST.replace("copy-start.2", "copy-start.9")
    for name, length in ((FROM_HOST, 200), (other, 200 + turn)):
        starts = [0, 1000, 2000]
        work(trace, name, starts, 1)
        work(trace, name, starts, length, line="Async XLA Ops")
    rows = {row.name: row for row in analyze(trace).offload}
    assert (rows["copy-start.9"].gb_per_s_alone is not None) is told


def test_without_an_async_line_only_the_exposed_part_is_told(analyze):
    trace = TraceBuilder()
    steps(trace)
    work(trace, GATHER, [0, 1000, 2000], 2)
    work(trace, GATHER_DONE, [100, 1100, 2100], 50)
    row = analyze(trace).collectives[0]
    assert (row.kind, row.occurrences, row.tensor) == ("all-gather", 3, "w.1")
    assert row.exposed_ms_per_step == pytest.approx(0.052)
    assert (row.gb_per_s, row.hidden_ms_per_step) == (None, None)


def test_what_lies_outside_steps_does_not_count(analyze):
    trace = TraceBuilder()
    steps(trace)
    work(trace, GATHER, [0, 1000, 2000, 5000], 2)
    assert analyze(trace).collectives[0].occurrences == 3
    assert analyze(trace).offload == []


@pytest.mark.shared_traces
def test_v6e_transfers(shared_traces):
    from tpuprof.analysis.analyze import analyze_run

    rows = {row.name: row for row in analyze_run(shared_traces / "tpu_v6e_host_offload").offload}
    assert len(rows) == 6
    assert {row.bytes for row in rows.values()} == {5_368_709_120}
    assert {row.occurrences for row in rows.values()} == {100}
    # As PROVENANCE.md states them: alone on the link, then the slowest and fastest that share it.
    assert rows["copy-start"].gb_per_s_alone == pytest.approx(28.4, rel=0.005)
    assert rows["copy-start.5"].gb_per_s_alone == pytest.approx(29.4, rel=0.005)
    assert rows["copy-start.3"].gb_per_s_alone is None
    assert rows["copy-start.4"].gb_per_s == pytest.approx(9.04, rel=0.005)
    assert rows["copy-start.3"].gb_per_s == pytest.approx(26.5, rel=0.005)
    # By the layouts: three parameters come from host memory, three results go there.
    assert sorted(row.kind for row in rows.values()) == ["device_to_host"] * 3 + ["host_to_device"] * 3
    assert rows["copy-start.5"].tensor == "broadcast_add_fusion"
    assert sum(row.exposed_ms_per_step for row in rows.values()) == pytest.approx(760, abs=2)
    # The device computes for 23.5 ms per step, so six copies hide little: 47 ms of the 1,976 ms they are in flight.
    assert sum(row.hidden_ms_per_step for row in rows.values()) == pytest.approx(47.3, abs=0.1)
    assert sum(row.waiting_ms_per_step for row in rows.values()) == pytest.approx(1168.2, abs=1)


@pytest.mark.shared_traces
@pytest.mark.parametrize("name", ["async_mostly_zero", "ip_21_814"])
def test_damaged_traces_are_read(shared_traces, name):
    from tpuprof.analysis.analyze import analyze_run

    report = analyze_run(shared_traces / "damaged" / f"{name}.xplane.pb")
    assert [each for each in report.findings if each.status == "error"] == []
