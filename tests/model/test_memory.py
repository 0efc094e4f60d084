"""HBM of a program from the compiler's buffer assignment."""

import pytest

from tpuprof.decode import hlo_pb2
from tpuprof.model.device.memory import MOMENTS, NO_ASSIGNMENT, NO_PROGRAMS, device_memory

ALLOC, FREE, SHARE = 0, 1, 2


def program(events, *, hole=0):
    """Two temporaries of 100 and 50 bytes, an argument of 10, an output of 20, one buffer in host memory."""
    proto = hlo_pb2.HloProto()
    module = proto.hlo_module
    entry = module.computations.add(name=b"main", id=1)
    assignment = proto.buffer_assignment
    sizes = {1: 100, 2: 50, 3: 10, 4: 20, 5: 1000}
    for number, size in sizes.items():
        made = entry.instructions.add(name=f"op.{number}".encode(), opcode=b"add", id=number)
        made.shape.CopyFrom(hlo_pb2.ShapeProto(element_type=11, dimensions=[size // 4]))
        made.metadata.source_file, made.metadata.source_line = b"model.py", number
        buffer = assignment.logical_buffers.add(id=number, size=size)
        buffer.defined_at.instruction_id = number
    arena = assignment.buffer_allocations.add(index=0, size=150 + hole)
    arena.assigned.add(logical_buffer_id=1, size=100)
    arena.assigned.add(logical_buffer_id=2, size=50)
    argument = assignment.buffer_allocations.add(index=1, size=10, is_entry_computation_parameter=True)
    argument.assigned.add(logical_buffer_id=3, size=10)
    output = assignment.buffer_allocations.add(index=2, size=20, maybe_live_out=True)
    output.assigned.add(logical_buffer_id=4, size=20)
    assignment.buffer_allocations.add(index=3, size=1000, color=5)
    assignment.buffer_allocations.add(index=4, size=7, is_thread_local=True)
    assignment.buffer_allocations.add(index=5, size=64, color=1)
    trace = assignment.heap_simulator_traces.add(whole_module_simulation=True, buffer_allocation_index=77)
    for kind, buffer, *shared in events:
        trace.events.add(kind=kind, buffer_id=buffer, share_with_canonical_id=shared[0] if shared else 0)
    return proto.SerializeToString()


BOTH = [(ALLOC, 1), (ALLOC, 2), (FREE, 1), (FREE, 2)]


def test_peak_is_the_sum_of_allocations_in_hbm():
    memory = device_memory({"f(1)": program(BOTH)}, "TPU v6 Lite")
    assert memory.peak == 150 + 10 + 20
    assert memory.by_kind == {"temporaries": 150, "arguments": 10, "outputs": 20, "host": 1000}
    assert memory.capacity == int(31.24 * 2**30)
    assert [(b.name, b.kind, b.bytes, b.shape, b.source) for b in memory.buffers] == [
        ("op.1", "temporary", 100, "f32[25]", "model.py:1"),
        ("op.2", "temporary", 50, "f32[12]", "model.py:2"),
        ("op.4", "output", 20, "f32[5]", "model.py:4"),
        ("op.3", "argument", 10, "f32[2]", "model.py:3"),
    ]
    assert memory.holes == 0


def test_only_what_is_alive_at_the_peak_is_named():
    one_after_the_other = [(ALLOC, 1), (FREE, 1), (ALLOC, 2), (FREE, 2)]
    memory = device_memory({"f(1)": program(one_after_the_other)}, "TPU v6 Lite")
    assert [b.name for b in memory.buffers] == ["op.1", "op.4", "op.3"]
    assert memory.holes == 50


def test_buffers_that_share_a_place_count_once_until_the_last_is_freed():
    shared = [(ALLOC, 1), (SHARE, 2, 1), (FREE, 1), (FREE, 2)]
    memory = device_memory({"f(1)": program(shared)}, "")
    assert [b.name for b in memory.buffers if b.kind == "temporary"] == ["op.1"]
    assert memory.capacity is None


def test_the_course_is_what_is_in_use_as_the_program_goes_on():
    memory = device_memory({"f(1)": program(BOTH)}, "")
    steady = 10 + 20
    assert [(each.order, each.op, each.bytes - steady) for each in memory.course] == [
        (0, "op.1", 100),
        (1, "op.2", 150),
        (2, "op.1", 50),
        (3, "op.2", 0),
    ]


def test_a_long_course_keeps_the_highest_moment_of_each_stretch():
    events = [event for _ in range(1000) for event in ((ALLOC, 2), (FREE, 2))]
    events[1000:1000] = [(ALLOC, 1), (FREE, 1)]
    course = device_memory({"f(1)": program(events)}, "").course
    assert len(course) <= MOMENTS
    assert max(course, key=lambda each: each.bytes).op == "op.1"
    assert min(each.bytes for each in course) == 10 + 20 + 50


def test_holes_are_what_no_live_buffer_fills():
    assert device_memory({"f(1)": program(BOTH, hole=30)}, "").holes == 30


def test_the_program_that_needs_most_speaks():
    small, large = program(BOTH), program(BOTH, hole=1000)
    assert device_memory({"small(1)": small, "large(2)": large}, "").program == "large(2)"


def test_programs_that_run_in_no_step_do_not_speak():
    protos = {"step(1)": program(BOTH), "first_weights(2)": program(BOTH, hole=1000)}
    assert device_memory(protos, "", {"step(1)": 0.9, "not_embedded(3)": 0.1}).program == "step(1)"
    assert device_memory(protos, "", {"not_embedded(3)": 1.0}).program == "first_weights(2)", (
        "nothing is known"
    )


@pytest.mark.parametrize(
    ("protos", "why"),
    [({}, NO_PROGRAMS), ({"f(1)": b""}, NO_ASSIGNMENT), ({"f(1)": b"\xff\xff"}, NO_ASSIGNMENT)],
)
def test_what_cannot_be_told_is_unavailable(protos, why):
    memory = device_memory(protos, "TPU v4")
    assert (memory.peak, memory.unavailable) == (None, why)


@pytest.mark.shared_traces
def test_v6e_memory_agrees_with_xprof(shared_traces, tmp_path):
    """Every program's total of allocations in HBM, as XProf's memory viewer states it (MiB)."""
    import json
    import shutil
    from pathlib import Path

    from xprof.convert import raw_to_tool_data

    from tpuprof.analysis.analyze import analyze_run
    from tpuprof.decode.load import load
    from tpuprof.model.compile.hlo_metadata import hlo_protos

    trace = shutil.copy(shared_traces / "tpu_v6e_host_offload" / "host0.xplane.pb", tmp_path)
    # Listing the tools makes XProf unpack the programs that its memory viewer reads.
    raw_to_tool_data.xspace_to_tool_names([str(trace)])
    programs = dict(hlo_protos(load(Path(trace))))
    assert len(programs) == 4
    for name, proto in programs.items():
        options = {"host": "", "graph_viewer_options": {}, "module_name": name, "use_saved_result": False}
        data, _ = raw_to_tool_data.xspace_to_tool_data([str(trace)], "memory_viewer", options)
        stated = json.loads(data)["totalBufferAllocationMib"]
        assert device_memory({name: proto}, "").peak / 2**20 == pytest.approx(stated, rel=0.001)
    memory = analyze_run(trace).memory
    assert memory.program == "jit_f(12190760917235803885)"
    assert memory.buffers[0].bytes == 5_368_709_120
