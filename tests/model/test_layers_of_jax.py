"""Layers that a JAX program repeats on the CPU device, whose trace states no FLOPs: they are read from the program."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.decode import hlo_pb2
from tpuprof.model.device.hlo_products import jax_products
from tpuprof.model.device.unrolled import MIN_UNNAMED_LAYERS

F32 = 11
FORWARD, BACKWARD = "jit(train)/jvp()/dot_general", "jit(train)/transpose(jvp())/dot_general"
# Width, and rows of a batch.
WIDE, ROWS = 32, 16


def dot(computation, number, name, shape, contracted, line):
    """One product: its name by JAX, the shape of its result, and how long the axis is that it sums over."""
    left = computation.instructions.add(id=2 * number, opcode=b"parameter", name=f"p.{number}".encode())
    made = computation.instructions.add(id=2 * number + 1, opcode=b"dot", name=f"dot.{number}".encode())
    for each, sizes in ((left, (shape[0], contracted)), (made, shape)):
        each.shape.element_type = F32
        each.shape.dimensions.extend(sizes)
    made.operand_ids.append(left.id)
    made.dot_dimension_numbers.lhs_contracting_dimensions.append(1)
    made.metadata.op_name, made.metadata.source_file, made.metadata.source_line = (
        name.encode(), b"model.py", line,
    )  # fmt: skip


def program(layers, prefix="", more=0):
    """Equal layers with one product forward and two backward, of which the first layer needs one; and a head."""
    proto = hlo_pb2.HloProto()
    module = proto.hlo_module
    computation = module.computations.add(id=1, name=b"main")
    module.entry_computation_id = 1
    number = 0
    for layer in range(layers):
        wanted = [(FORWARD, (ROWS, WIDE), WIDE), (BACKWARD, (WIDE, WIDE), ROWS)]
        wanted += [(BACKWARD, (ROWS, WIDE), WIDE)] if layer else []
        for name, shape, contracted in wanted:
            number += 1
            dot(computation, number, prefix + name, shape, contracted, 12)
    for at in range(more):
        dot(computation, number + 1 + at, prefix + FORWARD, (ROWS, 8 + at), WIDE, 40)
    return proto.SerializeToString()


def captured(embedded):
    trace = TraceBuilder()
    python, device = trace.host().line("python"), trace.host().line("tf_XLATfrtCpuClient/7")
    for number in range(4):
        begin = 1000 * number
        python.event("train", begin, 1000, _r=1, step_num=number)
        python.event("PjitFunction(train)", begin + 10, 20)
        device.event("ThunkExecutor::Execute (wait for completion)", begin + 40, 500)
        device.event("dot.1", begin + 50, 400, hlo_op="dot.1", hlo_module="jit_train", program_id=1)
    trace.plane("/host:metadata").name_id("jit_train(1)", "", {"hlo_proto": embedded})
    return trace


def unrolled(analyze, embedded):
    return [row for row in analyze(captured(embedded)).loops if row.kind == "unrolled"]


@pytest.mark.parametrize("layers", [MIN_UNNAMED_LAYERS - 1, 24])
def test_layers_are_counted_by_their_products(analyze, layers):
    found = unrolled(analyze, program(layers))
    if layers < MIN_UNNAMED_LAYERS:
        assert found == []
    else:
        assert [(row.trip_count, row.source) for row in found] == [(layers, "model.py:12")]


def test_what_belongs_to_no_layer_is_left_out_of_the_share(analyze):
    # Three products in each of 24 layers, one less in the first, and ten that occur once.
    row = unrolled(analyze, program(24, more=10))[0]
    assert row.ops_share_low == row.ops_share_high == pytest.approx(71 / 81)


def test_programs_of_another_framework_tell_no_passes_apart():
    assert jax_products(program(24, prefix="aten/")) is None
    assert jax_products(b"no program") is None


def test_a_loop_is_one_layer():
    """What `jax.lax.scan` runs stands once in the program, within the computation that the loop repeats."""
    proto = hlo_pb2.HloProto.FromString(program(24))
    module = proto.hlo_module
    module.computations[0].name = b"body"
    entry = module.computations.add(id=2, name=b"main")
    module.entry_computation_id = 2
    each = entry.instructions.add(id=999, opcode=b"while", name=b"while.1")
    each.metadata.op_name = b"jit(train)/while"
    each.called_computation_ids.append(1)
    assert jax_products(proto.SerializeToString()).products == ()
