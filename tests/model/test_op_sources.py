"""The line of an op, as its program or the profiler states it: the program's own, where a library made the op.

The line that calls the whole program is none.
"""

import pytest

from tests.builders import TraceBuilder
from tpuprof.decode import hlo_pb2
from tpuprof.decode.hlo_proto import place_of
from tpuprof.decode.load import load
from tpuprof.model.compile.hlo_metadata import read_hlo_metadata
from tpuprof.model.device.op_sources import users_line

FLAX = "/venv/lib/python3.11/site-packages/flax/linen/linear.py"


def traced(folder, name, functions):
    """A program of an op in each of these functions, the last one called by those before it.

    A function is a name and a line, and a file that is not the program's own.
    """
    proto = hlo_pb2.HloProto()
    module = proto.hlo_module
    module.name = name
    frames = module.stack_frame_index
    for number, (function, line, *file) in enumerate(functions, 1):
        frames.file_names.append(file[0].encode() if file else b"/u/train.py")
        frames.function_names.append(function)
        frames.file_locations.add(file_name_id=number, function_name_id=number, line=line)
        frames.stack_frames.add(file_location_id=number, parent_frame_id=number - 1)
    entry = module.computations.add(name=b"main", id=1)
    for number, (_, line, *_file) in enumerate(functions, 1):
        made = entry.instructions.add(name=f"dot.{number}".encode(), opcode=b"dot", id=number)
        made.metadata.op_name, made.metadata.stack_frame_id = b"jit(step)/dot", number
        made.metadata.source_file, made.metadata.source_line = frames.file_names[number - 1], line
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
    ("functions", "sources"),
    [
        # A layer of a library is called by the program's own model.
        (
            [(b"<module>", 55), (b"step", 28), (b"Mlp.__call__", 39), (b"Dense.__call__", 294, FLAX)],
            ["", "/u/train.py:28", "/u/train.py:39", "/u/train.py:39"],
        ),
        # Python's own files are no program's.
        (
            [(b"step", 28), (b"inner", 81, "/usr/lib/python3.11/contextlib.py")],
            ["/u/train.py:28", "/u/train.py:28"],
        ),
        # A library's function of the same name is called inside.
        (
            [(b"<module>", 55), (b"step", 28), (b"extra.<locals>.step", 339, FLAX), (b"clip", 105, FLAX)],
            ["", "/u/train.py:28", "/u/train.py:28", "/u/train.py:28"],
        ),
        # The jitted function is a library's: what calls it is no line of its ops.
        (
            [(b"<module>", 55), (b"step", 9, FLAX), (b"Dense.__call__", 294, FLAX)],
            ["", f"{FLAX}:9", f"{FLAX}:294"],
        ),
    ],
    ids=["a layer", "Python's own", "the same name in a library", "a library's step"],
)
def test_an_op_that_a_library_made_is_at_the_line_that_calls_the_library(tmp_path, functions, sources):
    """The loop of a world model was "at haiku/_src/stateful.py:644", its gathers "at flax/linen/linear.py:294"."""
    assert traced(tmp_path, b"jit_step", functions) == sources


@pytest.mark.parametrize(
    ("source", "stack", "line"),
    [
        (
            f"{FLAX}:294",
            f"{FLAX}:294:8\n{FLAX}:90:4\n/u/train.py:39:12\n/u/train.py:55:0\n",
            "/u/train.py:39",
        ),
        ("/u/model.py:7", f"/u/model.py:7:8\n{FLAX}:90:4\n", "/u/model.py:7"),
        (f"{FLAX}:294", f"{FLAX}:294:8\n", f"{FLAX}:294"),
        (f"{FLAX}:294", "", f"{FLAX}:294"),
        (f"{FLAX}:294", "nonsense\n\n:::", f"{FLAX}:294"),
        ("", "/u/train.py:39:12", ""),
    ],
)
def test_a_tpus_op_has_the_line_of_its_stack_that_is_the_programs_own(source, stack, line):
    assert users_line(source, stack) == line


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
