"""Shapes as HLO text and protos write them, and the bytes they take."""

import pytest

from tpuprof.decode import hlo_pb2
from tpuprof.decode.hlo_proto import shape_of
from tpuprof.decode.hlo_shape import HOST_MEMORY, parse_shape, split_parts


@pytest.mark.parametrize(
    ("text", "size", "padded"),
    [
        ("f32[]", 4, 4),
        ("bf16[8,128]{1,0:T(8,128)(2,1)}", 2048, 2048),
        ("bf16[5,100]{1,0:T(8,128)(2,1)}", 1000, 8 * 128 * 2),
        ("f32[3,7,100]{2,1,0:T(8,128)}", 8400, 3 * 8 * 128 * 4),
        ("f32[100,5]{0,1:T(8,128)}", 2000, 8 * 128 * 4),
        ("f32[1000]{0:T(1024)}", 4000, 4096),
        ("s4[7]", 4, 4),
        ("pred[3]", 3, 3),
        ("token[]", 0, 0),
        ("(f32[2], (s32[], bf16[4]))", 20, 20),
    ],
)
def test_bytes(text, size, padded):
    shape = parse_shape(text)
    assert (shape.bytes, shape.padded_bytes) == (size, padded)


@pytest.mark.parametrize(
    "layout",
    [
        "1,9:T(8,128)",
        "0:T(8,128)",
        "1,1:T(8,128)",
        "1,0:T(0,128)",
        "1,\u00b2:T(8,128)",
        f"1,{'9' * 5000}:T(8)",
    ],
)
def test_a_layout_that_orders_nothing_pads_nothing(layout):
    """Found by the fuzzer."""
    shape = parse_shape(f"f32[5,100]{{{layout}}}")
    assert shape.padded_bytes == shape.bytes == 2000


def test_sizes_that_are_no_numbers_are_left_out():
    assert parse_shape(f"f32[<=5,\u00b2,{'9' * 5000}]").dimensions == (5,)


def test_memory_spaces_are_told_apart():
    shape = parse_shape("(f32[256]{0:T(256)S(5)}, f32[256]{0:T(256)S(1)}, f32[256]{0:T(256)}, u32[]{:S(2)})")
    assert [leaf.memory_space for leaf in shape.leaves()] == [5, 1, 0, 2]
    assert shape.bytes_in(HOST_MEMORY) == 1024
    assert shape.bytes_in(0) == 1024


def test_comments_in_tuples_are_no_part_of_a_shape():
    assert str(parse_shape("(f32[2]{0}, /*index=1*/s32[3]{0})")) == "(f32[2], s32[3])"


def test_dynamic_dimensions_count_at_their_bound():
    assert parse_shape("f32[<=10,4]").dimensions == (10, 4)


def test_split_parts_keeps_what_brackets_and_quotes_enclose():
    assert split_parts('a, b{1,2}, "c,d", e(f, g[3,4])') == ["a", "b{1,2}", '"c,d"', "e(f, g[3,4])"]
    assert split_parts('x="a \\" , b", y') == ['x="a \\" , b"', "y"]


def test_a_proto_gives_the_same_shape_as_text():
    proto = hlo_pb2.ShapeProto(element_type=16, dimensions=[5, 100])
    proto.layout.minor_to_major.extend([1, 0])
    proto.layout.tiles.add(dimensions=[8, 128])
    proto.layout.tiles.add(dimensions=[2, 1])
    proto.layout.memory_space = 5
    assert shape_of(proto) == parse_shape("bf16[5,100]{1,0:T(8,128)(2,1)S(5)}")
