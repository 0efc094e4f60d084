"""What fusions do is read from the program, where the trace has it: what they multiply, and whether they look rows up."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.decode import hlo_pb2
from tpuprof.model.device.fusions import LOOKUP_FROM_SHARE

F32, BF16 = 11, 16
LINE = "%fusion.1 = f32[8,8]{1,0} fusion(f32[8,8]{1,0} %a, f32[8,8]{1,0} %b), kind=kOutput, calls=%inside"


def computation(module, number, instructions):
    """Add one: rows of (id, opcode, element type, operands, called computations)."""
    made = module.computations.add(id=number, name=f"c{number}".encode())
    for key, opcode, element_type, operands, called in instructions:
        each = made.instructions.add(id=key, opcode=opcode.encode(), name=f"{opcode}.{key}".encode())
        each.shape.element_type = element_type
        each.shape.dimensions.extend((8, 8))
        each.operand_ids.extend(operands)
        each.called_computation_ids.extend(called)


def program(multiplied, nested):
    """A step that is one fusion of a multiplication; `nested` puts that into a fusion inside the fusion."""
    proto = hlo_pb2.HloProto()
    module = proto.hlo_module
    inside = 3 if nested else 2
    computation(module, 1, [(1, "parameter", F32, [], []), (2, "fusion", F32, [1, 1], [2])])
    module.computations[0].instructions[1].name = b"fusion.1"
    if nested:
        computation(module, 2, [(1, "parameter", F32, [], []), (2, "fusion", F32, [1, 1], [3])])
    converted = [(2, "convert", multiplied, [1], []), (3, "convolution", F32, [2, 2], [])]
    computation(module, inside, [(1, "parameter", F32, [], []), *converted])
    return proto.SerializeToString()


def report_of(analyze, embedded):
    trace = TraceBuilder()
    trace.host().line("python").event("train", 0, 1000, _r=1)
    trace.tpu(0).line("XLA Modules").event("f(1)", 0, 1000)
    facts = {"hlo_category": "convolution fusion"}
    trace.tpu(0).line("XLA Ops").event(LINE, 0, 100, display="fusion.1", facts=facts)
    trace.plane("/host:metadata").name_id("f(1)", "", {"hlo_proto": embedded} if embedded else {})
    return analyze(trace)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(("multiplied", "expected"), [(BF16, "bf16"), (F32, "f32")])
def test_what_is_multiplied_inside_a_fusion_counts(analyze, multiplied, expected, nested):
    report = report_of(analyze, program(multiplied, nested))
    assert [row.matmul_type for row in report.ops] == [expected]
    assert (report.compute.float32_matmul_ms_per_step > 0) == (expected == "f32")


@pytest.mark.parametrize("embedded", [b"", b"no program"])
def test_without_a_readable_program_the_line_counts(analyze, embedded):
    assert [row.matmul_type for row in report_of(analyze, embedded).ops] == ["f32"]


def lookup(opcode, beside=0):
    """A step that is one fusion of a lookup of 8 x 8 elements, with `beside` times as many of other work."""
    proto = hlo_pb2.HloProto()
    module = proto.hlo_module
    computation(module, 1, [(1, "parameter", F32, [], []), (2, "fusion", F32, [1, 1], [2])])
    module.computations[0].instructions[1].name = b"fusion.1"
    rows = [(1, "parameter", F32, [], []), (2, opcode, F32, [1, 1, 1], []), (3, "add", F32, [2, 2], [])]
    computation(module, 2, rows)
    if beside:
        module.computations[1].instructions[2].shape.dimensions[0] *= beside
    return proto.SerializeToString()


def looked_up(analyze, embedded):
    trace = TraceBuilder()
    trace.host().line("python").event("train", 0, 1000, _r=1)
    trace.tpu(0).line("XLA Modules").event("f(1)", 0, 1000)
    line = LINE.replace("kind=kOutput", "kind=kLoop")
    facts = {"hlo_category": "loop fusion"}
    trace.tpu(0).line("XLA Ops").event(line, 0, 100, display="fusion.1", facts=facts)
    trace.plane("/host:metadata").name_id("f(1)", "", {"hlo_proto": embedded} if embedded else {})
    return [row.looks_up for row in analyze(trace).ops]


@pytest.mark.parametrize("opcode", ["gather", "scatter"])
def test_a_fusion_that_gathers_or_scatters_looks_rows_up(analyze, opcode):
    assert looked_up(analyze, lookup(opcode)) == [True]
    assert looked_up(analyze, lookup(opcode, int(1 / LOOKUP_FROM_SHARE))) == [True]
    assert looked_up(analyze, lookup(opcode, int(1 / LOOKUP_FROM_SHARE) + 1)) == [False]


def test_without_its_program_it_is_unknown_whether_a_fusion_looks_rows_up(analyze):
    assert looked_up(analyze, b"") == [None]
    assert looked_up(analyze, lookup("multiply")) == [False]
