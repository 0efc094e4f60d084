"""Reads that run a graph of their own in mid-step, and the step that computes the same again."""

import pytest

from tests.builders import TraceBuilder, op
from tpuprof.analysis.analyze import what_if_of
from tpuprof.decode import hlo_pb2
from tpuprof.model.read_graphs import AGAIN_FROM_SHARE, ASKED_FROM_SHARE
from tpuprof.own_events import BLOCKING_SYNC

STEPS = 8
LINE = "train.py:5"


def program(dots, size=8, line=7, plain=0, watched=False):
    """A program of so many multiplications of matrices of that size, and a sum, traced from a line of the loop.

    `plain` of them have no stack, as ops of a backward pass. Without a line none has. `watched`: while it was traced,
    calls of torch went through tpuprof.
    """
    proto = hlo_pb2.HloProto()
    made = proto.hlo_module.computations.add(id=1, name=b"main")
    frames = proto.hlo_module.stack_frame_index
    frames.file_names.extend([b"model.py", b"train.py"])
    frames.file_locations.add(file_name_id=2, line=line)
    frames.file_locations.add(file_name_id=1, line=30)
    frames.stack_frames.add(file_location_id=1)
    frames.stack_frames.add(file_location_id=2, parent_frame_id=1)
    frames.file_names.append(b"/venv/lib/tpuprof/capture/fallbacks.py")
    frames.file_locations.add(file_name_id=3, line=90)
    frames.stack_frames.add(file_location_id=3, parent_frame_id=2)
    for key in range(dots + 2):
        opcode = b"parameter" if key == 0 else b"dot" if key <= dots else b"reduce"
        each = made.instructions.add(id=key, opcode=opcode, name=b"%s.%d" % (opcode, key))
        each.shape.element_type = 11
        each.shape.dimensions.extend((size, size))
        each.operand_ids.extend([0] if key else [])
        if line and key <= dots - plain:
            each.metadata.stack_frame_id = 3 if watched else 2
    return proto.SerializeToString()


def trace_of(
    reads=(0, 1),
    device=500,
    of_read=None,
    of_step=None,
    cuts=True,
    thread="python",
    cpus=0,
    fetches=False,
    waits_from=140,
):
    """Steps of 1 ms on a busy device; those in `reads` read a value first, whose program takes `device` (µs).

    Where `cuts` is false the read hands no program over: it waits for one that the step handed over before. With `cpus`
    the device is the CPU, and so many of its threads run each op side by side. `fetches`: an op on the host takes it in.
    The thread waits from `waits_from` on (µs), and the program begins 150 µs after its step.
    """
    trace = TraceBuilder()
    python = trace.host().line("python")

    def run(module, key, begin, takes):
        for thread in range(cpus):
            line = trace.host().line(f"tf_XLATfrtCpuClient/{thread}")
            line.event(f"dot.{key}", begin, takes, hlo_op=f"dot.{key}", hlo_module=module, program_id=key)
        if not cpus:
            trace.tpu(0).line("XLA Modules").event(f"{module}({key})", begin, takes)
            trace.tpu(0).line("XLA Ops").event(start=begin, duration=takes, **op(f"dot.{key}", "dot"))

    for step in range(STEPS):
        begin = step * 1000
        python.event("train", begin, 1000, _r=1)
        if step in reads:
            reader = trace.host().line(thread)
            if not fetches:
                reader.event("tpuprof.host_read", begin + 100, device + 100, call="item", source=LINE)
            if cuts:
                reader.event("ScheduleSyncTensorsGraph", begin + 110, 20)
            reader.event(
                "PjRtComputationClient::TransferFromDevice", begin + waits_from, device + 190 - waits_from
            )
            run("read", 1, begin + 150, device)
        python.event("tpuprof.graph_cut", begin + 780, 50, call="sync", source="train.py:9")
        python.event("SyncTensorsGraph", begin + 785, 40)
        python.event("ScheduleSyncTensorsGraph", begin + 790, 20)
        at, takes = (800, 200) if step in reads else (20, 960)
        run("step", 2, begin + at, takes)
    embedded = {
        "read(1)": program(4) if of_read is None else of_read,
        "step(2)": program(6) if of_step is None else of_step,
    }
    for name, data in embedded.items():
        if data:
            trace.plane("/host:metadata").name_id(name, "", {"hlo_proto": data})
    return trace


def again(host):
    return [(each.call, each.source, each.occurrences, each.again_ps / 1e6) for each in host.read_graphs]


def test_what_the_step_has_as_well_is_computed_again(read):
    host = read(trace_of())
    assert again(host) == [("item", LINE, 2, 1000.0)]
    assert [ps / 1e6 for ps in host.read_graphs[0].by_step] == [500, 500, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("watched", ["of_read", "of_step"])
def test_programs_traced_while_ops_were_watched_are_compared_by_the_frames_of_the_training(read, watched):
    """A step's program was traced while calls of torch went through tpuprof: "the step computes it once" was said."""
    dots = {"of_read": 4, "of_step": 6}[watched]
    assert again(read(trace_of(**{watched: program(dots, watched=True)}))) == [("item", LINE, 2, 1000.0)]


def test_what_threads_of_a_cpu_do_side_by_side_counts_once(read):
    assert again(read(trace_of(cpus=2))) == [("item", LINE, 2, 1000.0)]


@pytest.mark.parametrize(
    "programs",
    [
        {"of_step": program(6, size=16)},
        {"of_step": b""},
        {"of_read": b"no program"},
        {"of_read": program(4, line=11)},
        {"of_read": program(4, line=0), "of_step": program(6, line=0)},
    ],
    ids=[
        "other shapes",
        "not embedded",
        "damaged",
        "an evaluation: from another line of the loop",
        "no stacks",
    ],
)
def test_work_of_the_reads_own_is_done_once(read, programs):
    """An evaluation is no second time; nor is what the trace does not embed, or cannot tell apart."""
    assert again(read(trace_of(**programs))) == [("item", LINE, 2, 0.0)]


def test_what_programs_without_stacks_do_again_is_unknown(read):
    (row,) = read(trace_of(of_read=program(4, line=0))).read_graphs
    assert (row.again_ps, row.untold_ps / 1e6) == (0, 1000.0)
    (row,) = read(trace_of()).read_graphs
    assert row.untold_ps == 0


@pytest.mark.parametrize(("dots", "twice"), [(4 / AGAIN_FROM_SHARE, True), (4 / AGAIN_FROM_SHARE + 1, False)])
def test_half_of_the_work_makes_it_the_same(read, dots, twice):
    host = read(trace_of(of_read=program(round(dots)), of_step=program(4)))
    assert (again(host)[0][3] > 0) == twice


def test_a_program_counts_by_the_share_of_its_work_that_is_done_again(read):
    host = read(trace_of(of_read=program(4), of_step=program(3)))
    assert again(host) == [("item", LINE, 2, 750.0)]


def test_a_backward_pass_is_done_again_with_its_forward_pass(read):
    host = read(trace_of(of_read=program(4, plain=2), of_step=program(6, plain=3)))
    assert again(host) == [("item", LINE, 2, 1000.0)]


def test_reads_of_a_custom_backward_are_in_autograds_thread(read):
    assert again(read(trace_of(thread="pt_autograd_0"))) == [("item", LINE, 2, 1000.0)]


def test_a_read_that_waits_for_the_steps_program_runs_none(read):
    assert read(trace_of(cuts=False)).read_graphs == []


@pytest.mark.parametrize(
    ("us", "asked"), [(1000 * ASKED_FROM_SHARE, True), (1000 * ASKED_FROM_SHARE - 1, False)]
)
def test_short_programs_of_reads_are_not_looked_at(read, us, asked):
    assert bool(read(trace_of(reads=range(STEPS), device=us)).read_graphs) == asked


def test_compiles_do_not_make_programs_of_reads_short(read):
    """They take half of each step."""
    us = round(1000 * ASKED_FROM_SHARE) - 1
    trace = trace_of(reads=range(STEPS), device=us)
    for step in range(STEPS):
        trace.host().line("python").event("XLAGraphExecutor::Compile", step * 1000 + 300, 450)
    assert read(trace).read_graphs


def test_the_verdict_and_the_finding_name_the_read(analyze):
    """Two of eight steps read: the device is busy in them, and yet it is the read that costs the time."""
    report = analyze(trace_of())
    said = report.verdict.sentence
    assert report.verdict.bound == "sync"
    assert (
        "the step computes the same again, which costs about 12 % of the steps' time (125 µs of 1.00 ms on average"
        in said
    )
    assert "nearly all of it in 2 of 8 steps)" in said
    found = next(each for each in report.findings if each.rule == "device-to-host-sync")
    assert found.status == "failed"
    assert found.title == (
        f".item() at {LINE} runs graphs of its own in mid-step, and the step computes the same again: 125 µs per step "
        "(nearly all of it in 2 of 8 steps)"
    )
    assert found.savings.low == pytest.approx(0.125)
    assert found.savings.high == pytest.approx(0.150)


def test_the_verdict_names_the_read_that_runs_graphs_not_the_wait_that_blocks_longer(analyze):
    trace = trace_of(reads=range(STEPS), device=300)
    for step in range(STEPS):
        trace.host().line("python").event(
            "tpuprof.host_read", step * 1000 + 510, 485, call=BLOCKING_SYNC, source="train.py:9"
        )
    report = analyze(trace)
    assert max(report.host_reads, key=lambda row: row.blocked_ms_per_step).call == BLOCKING_SYNC
    assert "the step computes the same again" in report.verdict.sentence
    assert f"It is .item() at {LINE}." in report.verdict.sentence


def test_the_verdict_and_the_price_of_one_read_have_one_bound(analyze):
    """Turns and work done again were added up to 70 % of a step that the read blocks for 40 %."""
    report = analyze(trace_of(reads=range(STEPS), device=300))
    (found,) = (each for each in report.findings if each.rule == "device-to-host-sync")
    said = "take turns, and the step computes the same again, which costs up to 40 % of each step (400 µs of"
    assert said in report.verdict.sentence
    assert (found.savings.low, found.savings.high) == (pytest.approx(0.3), pytest.approx(0.4))


def test_where_the_read_computes_something_else_it_is_not_named(analyze):
    report = analyze(trace_of(of_step=program(6, size=16)))
    assert report.verdict.bound != "sync"
    assert next(each for each in report.findings if each.rule == "device-to-host-sync").status == "passed"


def test_what_reads_cost_counts_once_in_what_if(tmp_path):
    """The price is a bound by itself; its change only says which time other findings sell as well."""
    path = trace_of().write(tmp_path / "host.xplane.pb")
    found = what_if_of(path, ["device-to-host-sync"])
    assert found.rules == ["device-to-host-sync"]
    assert (found.low_ms, found.high_ms) == (pytest.approx(0.85, abs=0.01), pytest.approx(0.875, abs=0.01))
