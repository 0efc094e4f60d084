"""Ops that compute again what a program had computed: the blocks of gradient checkpointing."""

import pytest

from tpuprof.decode.hlo_text import parse_hlo_text
from tpuprof.model.device.recomputed import of_module, recomputed

PRODUCT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
HEAD = """HloModule step, is_scheduled=true

%scaled (p.0: f32[4,4], p.1: f32[4,4]) -> f32[4,4] {
  %p.0 = f32[4,4] parameter(0)
  %p.1 = f32[4,4] parameter(1)
  %two = f32[] constant(2)
  %twos = f32[4,4] broadcast(%two), dimensions={}
  ROOT %scale = f32[4,4] multiply(%p.0, %twos)
}

"""


def names(*lines, before="", head=HEAD):
    body = "\n".join(f"  {line}" for line in lines)
    text = (
        f"{head}{before}ENTRY %main (x: f32[4,4], w: f32[4,4]) -> f32[4,4] {{\n  %x = f32[4,4] parameter(0)\n"
    )
    found = of_module(parse_hlo_text(f"{text}  %w = f32[4,4] parameter(1)\n{body}\n}}\n"))
    return sorted(found.ops), found.bytes


def dot(name, left, right="w", said=PRODUCT, meta=""):
    return f"%{name} = f32[4,4] dot(%{left}, %{right}), {said}{meta}"


def test_a_product_of_the_same_values_is_computed_again():
    """The second one reads a copy, and what it multiplies comes out of a fusion of its own."""
    first = "%a = f32[4,4] fusion(%x, %w), kind=kLoop, calls=%scaled"
    again = "%b = f32[4,4]{0,1} copy(%x)"
    fused = "%c = f32[4,4] fusion(%b, %w), kind=kLoop, calls=%scaled"
    found = names(
        first, dot("d.1", "a"), again, fused, dot("d.2", "c"), "ROOT %sum = f32[4,4] add(%d.1, %d.2)"
    )
    assert found == (["c", "d.2"], 128)


@pytest.mark.parametrize(
    "second",
    [dot("d.2", "w"), dot("d.2", "x", said="lhs_contracting_dims={0}, rhs_contracting_dims={0}")],
    ids=["other values", "another product"],
)
def test_other_products_are_not(second):
    assert names(dot("d.1", "x"), second, "ROOT %sum = f32[4,4] add(%d.1, %d.2)") == ([], 0)


def test_what_is_there_twice_without_a_product_is_nothing():
    fused = "%{} = f32[4,4] fusion(%x, %w), kind=kLoop, calls=%scaled"
    assert names(fused.format("a"), fused.format("b"), "ROOT %s = f32[4,4] add(%a, %b)") == ([], 0)


def test_copies_that_the_compiler_makes_itself_do_not_count():
    """It makes them where memory is short."""
    assert names(dot("d.1", "x"), dot("d.1.remat", "x"), "ROOT %s = f32[4,4] add(%d.1, %d.1.remat)") == (
        [],
        0,
    )


def test_what_is_random_is_another_value_each_time():
    rng = "%{} = f32[4,4] rng(), distribution=rng_uniform"
    lines = (rng.format("r.1"), dot("d.1", "r.1"), rng.format("r.2"), dot("d.2", "r.2"))
    assert names(*lines, "ROOT %s = f32[4,4] add(%d.1, %d.2)") == ([], 0)


def test_long_constants_whose_numbers_are_not_there_differ():
    number = "%{} = f32[4,4] constant({{...}})"
    lines = (number.format("c.1"), dot("d.1", "x", "c.1"), number.format("c.2"), dot("d.2", "x", "c.2"))
    assert names(*lines, "ROOT %s = f32[4,4] add(%d.1, %d.2)") == ([], 0)


def branches(*ways):
    text = "%{name} (p: f32[4,4]) -> f32[4,4] {{\n  %p.{name} = f32[4,4] parameter(0)\n  ROOT {line}\n}}\n\n"
    return "".join(text.format(name=name, line=dot(f"d.{name}", f"p.{name}", f"p.{name}")) for name in ways)


def test_branches_of_which_one_runs_repeat_nothing():
    call = "ROOT %s = f32[4,4] conditional(%x, %x, %w), branch_computations={%one, %two}"
    assert names(call, before=branches("one", "two")) == ([], 0)


MARK = ', metadata={op_name="jit(step)/transpose(jvp())/checkpoint/rematted_computation/dot_general"}'


def test_jax_marks_what_it_computes_again():
    """Of loops, too, where a product reads what the loop is given: its results are as many as the loop has turns."""
    body = branches("body").replace(PRODUCT, PRODUCT + MARK)
    stop = "%stop (p.s: f32[4,4]) -> pred[] {\n  %p.s = f32[4,4] parameter(0)\n  ROOT %no = pred[] constant(false)\n}\n\n"
    loop = (
        "ROOT %l = f32[4,4] while(%d.1), condition=%stop, body=%body"
        ', backend_config={"known_trip_count":{"n":"3"}}'
    )
    assert names(dot("d.1", "x", meta=MARK), loop, before=body + stop) == (["d.1", "d.body"], 4 * 64)
    unknown = loop.partition(", backend")[0]
    assert names(dot("d.1", "x", meta=MARK), unknown, before=body + stop) == (["d.1", "d.body"], None)


def test_calls_that_multiply_end():
    """Twenty computations, each of which calls the next one eight times."""
    call = "  %c{row}.{at} = f32[4,4] call(%p{row}), to_apply=%f{next}\n"
    calls = "".join(
        f"%f{row} (p{row}: f32[4,4]) -> f32[4,4] {{\n  %p{row} = f32[4,4] parameter(0)\n"
        + "".join(call.format(row=row, at=at, next=row + 1) for at in range(8))
        + f"  ROOT %r{row} = f32[4,4] add(%c{row}.0, %c{row}.1)\n}}\n\n"
        for row in range(19)
    )
    last = "%f19 (p19: f32[4,4]) -> f32[4,4] {\n  ROOT %p19 = f32[4,4] parameter(0)\n}\n\n"
    assert names("ROOT %c = f32[4,4] call(%x), to_apply=%f0", before=last + calls) == ([], 0)


def test_what_a_loop_multiplies_is_not_taken_for_the_programs_own():
    """The first parameter of its body is no input of the program."""
    body = branches("body").replace(PRODUCT, PRODUCT + OF_LAYER)
    stop = "%stop (p.s: f32[4,4]) -> pred[] {\n  %p.s = f32[4,4] parameter(0)\n  ROOT %no = pred[] constant(false)\n}\n\n"
    loops = [
        f"%l.{row} = f32[4,4] while(%{given}), condition=%stop, body=%body"
        for row, given in ((1, "x"), (2, "w"))
    ]
    assert names(*loops, "ROOT %s = f32[4,4] add(%l.1, %l.2)", before=body + stop) == ([], 0)


def test_a_damaged_program_tells_nothing():
    found = recomputed({"jit_step(1)": b"\x00damaged"})
    assert (found.ops, found.bytes) == (frozenset(), 0)


OF_LAYER = ', metadata={op_name="aten__addmm"}'
SUM = "ROOT %s = f32[4,4] add(%d.1, %d.2)"
FIRST = ("%a = f32[4,4] multiply(%x, %x)", dot("d.1", "a", meta=OF_LAYER))


def second(value, weight=(), name="w"):
    return (value, *weight, dot("d.2", "b", name, meta=OF_LAYER))


@pytest.mark.parametrize(
    "again",
    [
        second("%b = f32[4,4] add(%x, %x)"),
        second("%b = f32[4,4] add(%x, %x)", ["%t = f32[4,4] transpose(%w), dimensions={1,0}"], "t"),
    ],
    ids=["written in another way", "with the weight laid out in another way"],
)
def test_a_second_run_of_a_block_that_is_written_in_another_way_is_known_by_its_weight(again):
    """So the TPU compiler writes it: of eight products one was the same to the last instruction."""
    assert names(*FIRST, *again, SUM) == (["d.2"], 64)


@pytest.mark.parametrize(
    "other",
    [
        second("%b = f32[4,4] add(%x, %w)"),
        second("%b = f32[4,4] slice(%x), slice={[0:4], [0:4]}"),
        second("%b = f32[4,4] add(%d.1, %x)"),
        ("%b = f32[4,4] add(%x, %x)", dot("d.2", "b")),
        second("%b = f32[4,4] add(%x, %x)", ["%part = f32[4,4] slice(%w), slice={[0:4], [0:4]}"], "part"),
    ],
    ids=[
        "of other inputs",
        "of other pieces of one",
        "of its own result",
        "by another op",
        "with a piece of the weight",
    ],
)
def test_other_uses_of_a_weight_are_not(other):
    """Two micro-batches, two steps in time, or two layers that share a packed weight."""
    assert names(*FIRST, *other, SUM) == ([], 0)


def test_a_weight_that_is_used_more_often_is_shared():
    third = ("%c = f32[4,4] subtract(%x, %x)", dot("d.3", "c", meta=OF_LAYER))
    assert names(*FIRST, *second("%b = f32[4,4] add(%x, %x)"), *third, SUM) == ([], 0)


def test_gradients_of_two_branches_with_the_same_weight_are_not_computed_again():
    """A scorer of pairs runs its encoder on both sentences; both gradients are made of all inputs, and of the weight."""
    forward = ("%a = f32[4,4] multiply(%x, %x)", dot("d.0", "a"))
    gradients = ("%g = f32[4,4] add(%d.0, %x)", "%h = f32[4,4] subtract(%d.0, %x)")
    products = (dot("d.1", "g", meta=OF_LAYER), dot("d.2", "h", meta=OF_LAYER))
    assert names(*forward, *gradients, *products, SUM) == ([], 0)
