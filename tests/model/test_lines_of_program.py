"""Lines that much of a program comes from, where no layers are seen to repeat in it."""

import pytest

from tests.model.test_layers_of_jax import captured
from tpuprof.decode import hlo_pb2
from tpuprof.model.device.lines_of_program import FROM_OPS

LIBRARY = "/env/lib/python3.11/site-packages/torch/nn/modules/linear.py"


def program(ops):
    """A program with so many ops of each (file, line); those of no file name none."""
    proto = hlo_pb2.HloProto()
    computation = proto.hlo_module.computations.add(id=1, name=b"main")
    proto.hlo_module.entry_computation_id = 1
    number = 0
    for (file, line), count in ops.items():
        for _ in range(count):
            number += 1
            made = computation.instructions.add(id=number, opcode=b"add", name=f"add.{number}".encode())
            made.metadata.source_file, made.metadata.source_line = file.encode(), line
    return proto.SerializeToString()


def lines(analyze, ops):
    return [row for row in analyze(captured(program(ops))).loops if row.kind == "line"]


def test_lines_of_a_time_loop_are_told_with_their_share(analyze):
    found = lines(analyze, {("m.py", 93): 900, ("m.py", 94): 800, (LIBRARY, 134): 300, ("", 0): 5000})
    assert [(row.source, row.ops_share_low) for row in found] == [("m.py:93", 0.45), ("m.py:94", 0.4)]
    assert found[0].detail == "900 of the program's ops, 45 % of those that name a line, come from m.py:93"


@pytest.mark.parametrize(("ops", "told"), [(FROM_OPS, True), (FROM_OPS - 1, False)])
def test_a_line_with_few_ops_is_not_told(analyze, ops, told):
    assert bool(lines(analyze, {("m.py", 93): ops, ("m.py", 7): 40})) == told


@pytest.mark.parametrize(("others", "told"), [(9 * FROM_OPS, True), (9 * FROM_OPS + 1, False)])
def test_a_line_with_a_small_share_is_not_told(analyze, others, told):
    assert bool(lines(analyze, {("m.py", 93): FROM_OPS, (LIBRARY, 134): others})) == told


def test_lines_of_libraries_are_not_told(analyze):
    assert not lines(analyze, {(LIBRARY, 134): 2 * FROM_OPS, ("m.py", 7): 40})
