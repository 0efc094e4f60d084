"""The line of an op of JAX, as its program states it: the line that calls the whole program is none."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.decode import hlo_pb2
from tpuprof.decode.hlo_proto import place_of
from tpuprof.decode.load import load
from tpuprof.model.compile.hlo_metadata import read_hlo_metadata


def traced(folder, name, functions):
    """A program of three ops: in the jitted function, in one that this calls, and with its caller's stack alone."""
    proto = hlo_pb2.HloProto()
    module = proto.hlo_module
    module.name = name
    frames = module.stack_frame_index
    frames.file_names.append(b"/u/train.py")
    for number, (function, line) in enumerate(functions, 1):
        frames.function_names.append(function)
        frames.file_locations.add(file_name_id=1, function_name_id=number, line=line)
        frames.stack_frames.add(file_location_id=number, parent_frame_id=number - 1)
    entry = module.computations.add(name=b"main", id=1)
    for number, (_, line) in enumerate(functions, 1):
        made = entry.instructions.add(name=f"dot.{number}".encode(), opcode=b"dot", id=number)
        made.metadata.op_name, made.metadata.stack_frame_id = b"jit(step)/dot", number
        made.metadata.source_file, made.metadata.source_line = b"/u/train.py", line
    trace = TraceBuilder()
    trace.plane("/host:metadata").name_id("jit_step(1)", "", {"hlo_proto": proto.SerializeToString()})
    found = read_hlo_metadata(load(trace.write(folder / "host.xplane.pb")))
    return [found.describe("jit_step(1)", f"dot.{number}")[1] for number in range(1, len(functions) + 1)]


@pytest.mark.parametrize(
    ("name", "functions", "sources"),
    [
        (b"jit_step", [(b"<module>", 55), (b"step", 28), (b"solve.<locals>.body", 23)], ["", "28", "23"]),
        # A method of the same name calls it.
        (b"jit_step", [(b"Trainer.step", 9), (b"step", 28), (b"solve", 23)], ["", "28", "23"]),
        # No stack tells which function the program is of: JAX keeps ten frames.
        (b"jit_step", [(b"<module>", 55), (b"block", 28), (b"solve", 23)], ["55", "28", "23"]),
        (b"SyncTensorsGraph.1", [(b"<module>", 55), (b"step", 28), (b"solve", 23)], ["55", "28", "23"]),
    ],
    ids=["a loop calls it", "a method calls it", "unknown", "no function"],
)
def test_the_line_that_calls_the_program_is_no_ops_line(tmp_path, name, functions, sources):
    assert traced(tmp_path, name, functions) == [f"/u/train.py:{each}" if each else "" for each in sources]


@pytest.mark.parametrize(
    ("called_by", "place"),
    [(b"/u/train.py", ("/u/train.py", 25)), (b"/x/tpuprof/capture/a.py", ("", 0)), (b"", ("", 0))],
)
def test_a_call_that_goes_through_tpuprof_has_the_line_of_its_caller(called_by, place):
    """Two convolutions of a program that fell back elsewhere were "at tpuprof/capture/fallbacks.py"."""
    ours = b"/x/tpuprof/capture/fallbacks.py"
    frames = hlo_pb2.StackFrameIndexProto()
    frames.file_names.extend([ours, called_by])
    frames.file_locations.add(file_name_id=1, line=194)
    frames.file_locations.add(file_name_id=2, line=25)
    frames.stack_frames.add(file_location_id=2)
    frames.stack_frames.add(file_location_id=1, parent_frame_id=1)
    op = hlo_pb2.HloInstructionProto()
    op.metadata.source_file, op.metadata.source_line = ours, 194
    op.metadata.stack_frame_id = 2 if called_by else 0
    assert place_of(op, frames) == place
