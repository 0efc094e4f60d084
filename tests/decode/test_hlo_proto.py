"""Serialized HLO modules."""

import pytest

from tpuprof.decode import hlo_pb2
from tpuprof.decode.hlo_proto import read_hlo_proto
from tpuprof.errors import Code, TpuprofError


def module() -> hlo_pb2.HloModuleProto:
    proto = hlo_pb2.HloModuleProto(name=b"step", entry_computation_id=7, id=1)
    frames = proto.stack_frame_index
    frames.file_names.append(b"/home/me/train.py")
    frames.file_locations.add(file_name_id=1, line=12)
    frames.stack_frames.add(file_location_id=1)
    entry = proto.computations.add(name=b"main", id=7, root_id=3)
    shape = hlo_pb2.ShapeProto(element_type=11, dimensions=[4, 8])
    left = entry.instructions.add(name=b"x", opcode=b"parameter", id=1, parameter_number=0)
    left.shape.CopyFrom(shape)
    weight = entry.instructions.add(name=b"w", opcode=b"parameter", id=2, parameter_number=1)
    weight.shape.CopyFrom(hlo_pb2.ShapeProto(element_type=11, dimensions=[8, 2]))
    dot = entry.instructions.add(name=b"dot", opcode=b"dot", id=3, operand_ids=[1, 2])
    dot.shape.CopyFrom(hlo_pb2.ShapeProto(element_type=11, dimensions=[4, 2]))
    dot.dot_dimension_numbers.lhs_contracting_dimensions.append(1)
    dot.metadata.op_name = b"aten__mm"
    dot.metadata.stack_frame_id = 1
    proto.input_output_alias.entries.add(output_shape_index=[0], parameter_number=1)
    return proto


def test_structure():
    read = read_hlo_proto(module().SerializeToString())
    assert (read.name, read.entry_name, read.aliases) == ("step", "main", {1: 0})
    dot = read.entry.root
    assert (dot.name, dot.operands, dot.op_name, dot.source) == (
        "dot",
        ["x", "w"],
        "aten__mm",
        "/home/me/train.py:12",
    )
    assert [each.name for each in read.entry.parameters()] == ["x", "w"]


def test_an_hloproto_around_it_reads_the_same():
    wrapped = hlo_pb2.HloProto(hlo_module=module()).SerializeToString()
    assert read_hlo_proto(wrapped).entry.root.name == "dot"


def test_arrays_and_paddings_are_compared_by_checksums():
    """Two arrays of constants, and two pads whose `padding_config` (field 21 of XLA's own hlo.proto) differs."""
    proto = module()
    entry = proto.computations[0]
    for number, (values, padding) in enumerate(
        [([1.0, 2.0], b"ab"), ([1.0, 3.0], b"cd"), ([1.0, 2.0], b"ab")]
    ):
        array = entry.instructions.add(name=b"c%d" % number, opcode=b"constant", id=10 + number)
        array.literal.f32s.extend(values)
        pad = entry.instructions.add(name=b"p%d" % number, opcode=b"pad", id=20 + number)
        pad.MergeFromString(b"\xaa\x01\x02" + padding)
    read = read_hlo_proto(proto.SerializeToString()).entry.instructions
    for kind, name in (("c", "value"), ("p", "setting")):
        first, other, same = (read[f"{kind}{number}"].attributes[name] for number in range(3))
        assert first == same != other


def test_the_schedule_orders_instructions():
    proto = module()
    proto.schedule.sequences[7].instruction_ids.extend([2, 1, 3])
    read = read_hlo_proto(proto.SerializeToString())
    assert read.is_scheduled
    assert [each.name for each in read.entry] == ["w", "x", "dot"]


@pytest.mark.parametrize("data", [b"", b"not a proto at all", module().SerializeToString()[:20]])
def test_anything_else_is_refused(data):
    with pytest.raises(TpuprofError) as caught:
        read_hlo_proto(data)
    assert caught.value.code is Code.CORRUPT
