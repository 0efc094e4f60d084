"""Which ops compute in double precision, and where the doubles begin, as far as the program tells."""

import numpy as np
import pytest

from tests.preflight import programs
from tpuprof.decode import hlo_pb2
from tpuprof.model.device.activity import OpNames
from tpuprof.model.device.doubles import ARRAY_FROM, doubles_in, doubles_of, note_doubles
from tpuprof.model.device.op_facts import facts_of
from tpuprof.model.device.op_lines import op_lines

DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
NAMED = 'metadata={op_name="x"}'
CAST = 'metadata={op_name="loss" source_file="train.py" source_line=7}'


def doubles(body, before=""):
    found = doubles_in(programs.entry(body, before))
    return set(found.ops), found.begin


def test_what_reads_or_writes_arrays_of_doubles_counts_and_inputs_are_named():
    body = f"""  %x = f64[64,64]{{1,0}} parameter(0), {NAMED}
  %h = f64[64,64]{{1,0}} dot(%x, %x), {DOT}
  %n = f32[64,64]{{1,0}} convert(%h)
  ROOT %t = f32[64,64]{{1,0}} tanh(%n)"""
    assert doubles(body) == ({"h", "n"}, "inputs x")


def test_inputs_without_a_name_are_told_by_the_line_that_hands_them_over():
    given = 'metadata={op_name="xla__device_data" source_file="train.py" source_line=7}'
    body = f"""  %x = f64[64,64]{{1,0}} parameter(0), {given}
  ROOT %h = f64[64,64]{{1,0}} dot(%x, %x), {DOT}"""
    assert doubles(body) == ({"h"}, "inputs at train.py:7")


@pytest.mark.parametrize(
    ("size", "found"), [(ARRAY_FROM - 1, (set(), "")), (ARRAY_FROM, ({"c", "s"}, "train.py:7"))]
)
def test_a_cast_to_doubles_is_where_they_begin_and_few_numbers_do_not_count(size, found):
    body = f"""  %x = f32[{size}]{{0}} parameter(0)
  %c = f64[{size}]{{0}} convert(%x), {CAST}
  ROOT %s = f64[{size}]{{0}} multiply(%c, %c)"""
    assert doubles(body) == found


def test_scalars_of_doubles_in_a_program_of_float32_do_not_count():
    body = """  %x = f32[64,64]{1,0} parameter(0)
  %rate = f64[] parameter(1), metadata={op_name="rate"}
  %half = f64[] multiply(%rate, %rate)
  %narrow = f32[] convert(%half)
  %wide = f32[64,64]{1,0} broadcast(%narrow), dimensions={}
  ROOT %s = f32[64,64]{1,0} multiply(%x, %wide)"""
    assert doubles(body) == (set(), "")


@pytest.mark.parametrize("inside", ["f64", "f32", "bf16", "c128"])
def test_a_fusion_counts_by_what_it_computes_with_inside(inside):
    fused = f"""%fused (p: f32[512]) -> f32[512] {{
  %p = f32[512]{{0}} parameter(0)
  %wide = {inside}[512]{{0}} convert(%p)
  ROOT %back = f32[512]{{0}} convert(%wide)
}}"""
    body = """  %x = f32[512]{0} parameter(0)
  ROOT %f = f32[512]{0} fusion(%x), kind=kLoop, calls=%fused"""
    assert doubles(body, fused)[0] == ({"f"} if inside in ("f64", "c128") else set())


PAIR = """  %w = f64[64,64]{1,0} parameter(0), metadata={op_name="w"}
  %y = f32[64,64]{1,0} parameter(1)
  %low = f32[64,64]{1,0} custom-call(%w), custom_call_target="X64SplitLow"
  %high = f32[64,64]{1,0} custom-call(%w), custom_call_target="X64SplitHigh"
  %alone = f32[64,64]{1,0} multiply(%low, %y)
  %a = f32[64,64]{1,0} add(%low, %high)
  %b = f32[64,64]{1,0} multiply(%a, %alone)
  %other = f32[64,64]{1,0} multiply(%a, %y)
  %aside = f32[64,64]{1,0} multiply(%a, %other)
  ROOT %joined = f64[64,64]{1,0} custom-call(%b, %other), custom_call_target="X64Combine\""""


RESULT = "%joined = f64[64,64]{1,0}"


@pytest.mark.parametrize("result", [RESULT, "%joined = f64[]"])
def test_on_a_tpu_what_leads_from_split_doubles_to_joined_ones_stands_for_them(result):
    assert doubles(PAIR.replace(RESULT, result)) == ({"a", "b", "other"}, "inputs w")


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("add(%low, %high)", "add(%low, %low)"),
        ("custom-call(%b, %other)", "custom-call(%b, %y)"),
        (RESULT, "%joined = s64[64,64]{1,0}"),
        ("%w = f64[64,64]{1,0}", "%w = s64[64,64]{1,0}"),
        ("%w = f64[64,64]{1,0}", "%w = f64[64]{0}"),
    ],
    ids=[
        "cast before all else",
        "cast at the end",
        "integers go out",
        "integers come in",
        "few numbers come in",
    ],
)
def test_on_a_tpu_what_may_compute_in_float32_does_not_count(was, becomes):
    assert was in PAIR
    assert doubles(PAIR.replace(was, becomes)) == (set(), "")


def test_on_a_tpu_doubles_begin_at_inputs_that_are_not_cast_at_once():
    body = PAIR.replace(
        "  %alone =",
        """  %x = f64[64,64]{1,0} parameter(2), metadata={op_name="x"}
  %cast = f32[64,64]{1,0} custom-call(%x), custom_call_target="X64SplitLow"
  %alone =""",
    )
    assert doubles(body)[1] == "inputs w"


def test_loops_of_a_tpu_that_lie_between_count_with_their_ops():
    body = """%body (p: f32[64,64]) -> f32[64,64] {
  %p = f32[64,64]{1,0} parameter(0)
  ROOT %in = f32[64,64]{1,0} tanh(%p)
}"""
    text = PAIR.replace("multiply(%a, %y)", "while(%a), condition=%cond, body=%body")
    assert doubles(text, body)[0] == {"a", "b", "in"}


SUMS = """%fused (a: f32[512], b: f32[512]) -> f32[512] {
  %a = f32[512]{0} parameter(0)
  %b = f32[512]{0} parameter(1)
  %sum = f32[512]{0} add(%a, %b)
  %finite = pred[512]{0} is-finite(%sum)
  %gained = f32[512]{0} subtract(%sum, %a)
  %lost = f32[512]{0} subtract(%b, %gained)
  ROOT %kept = f32[512]{0} select(%finite, %lost, %b)
}"""


@pytest.mark.parametrize(
    ("was", "becomes", "found"),
    [
        ("", "", {"f"}),
        ("is-finite(%sum)", "compare(%sum, %a), direction=LT", set()),
        ("subtract(%b, %gained)", "subtract(%a, %gained)", set()),
        ("add(%a, %b)", "multiply(%a, %b)", set()),
        ("512", "8", set()),
    ],
    ids=["sums a pair", "a sum that code compensates itself", "another difference", "no sum", "few numbers"],
)
def test_on_a_tpu_doubles_that_a_program_makes_and_uses_up_are_known_by_their_sums(was, becomes, found):
    body = """  %x = f32[512]{0} parameter(0)
  ROOT %f = f32[512]{0} fusion(%x, %x), kind=kLoop, calls=%fused"""
    assert doubles(body, SUMS.replace(was, becomes) if was else SUMS)[0] == found


def serialized(element_type, size=512):
    module = hlo_pb2.HloModuleProto(name=b"step", entry_computation_name=b"main", entry_computation_id=1)
    main = module.computations.add(name=b"main", id=1, root_id=2)
    for at, (name, code) in enumerate((("x", b"parameter"), ("h", b"tanh")), 1):
        each = main.instructions.add(
            name=name.encode(), opcode=code, id=at, operand_ids=[1] if at > 1 else []
        )
        each.shape.element_type = element_type
        each.shape.dimensions.append(size)
    return module.SerializeToString()


def test_bytes_that_are_no_program_have_no_doubles():
    assert doubles_of(b"no program").ops == frozenset()
    assert doubles_of(serialized(12)).ops == {"h"}
    assert doubles_of(serialized(11)).ops == frozenset()


def test_ops_say_whether_they_compute_with_doubles_and_those_of_unknown_programs_do_not():
    names = ["h", "h", "y", "h.clone"]
    ops = OpNames(
        names, [""] * 4, [""] * 4, np.zeros(4, np.int64), ["step", "other", "step", "step"],
        [""] * 4, [""] * 4, np.zeros(4, np.int64), np.zeros(4, np.int64), op_lines([""] * 4, names, [""] * 4),
    )  # fmt: skip

    class Device:
        pass

    Device.ops = ops
    note_doubles([Device, Device], {"step": serialized(12)})
    facts, of = facts_of(ops)
    assert [facts[each].double for each in of] == [True, None, False, True]
    assert [facts[each].double_from for each in of] == ["inputs at x", "", "", "inputs at x"]
