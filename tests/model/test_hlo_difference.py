"""What tells two programs apart, as lines."""

from tpuprof.decode.hlo import Computation, HloModule, Instruction
from tpuprof.decode.hlo_shape import parse_shape
from tpuprof.model.compile import hlo_difference
from tpuprof.model.compile.hlo_difference import difference, listing


def module(size, suffix="", extra=()):
    entry = Computation("main")
    for each in (
        Instruction(f"p0{suffix}", "parameter", parse_shape(f"f32[{size}]"), parameter_number=0),
        Instruction(f"add{suffix}", "add", parse_shape("f32[2]"), [f"p0{suffix}", f"p0{suffix}"]),
        *extra,
    ):
        entry.instructions[each.name] = each
    return HloModule("m", "main", {"main": entry})


def lines(found, kind):
    return [line.text.strip() for line in found.lines if line.kind == kind]


def test_numbers_of_names_make_no_difference():
    found = difference(module(4, ".12"), module(4, ".7.clone"))
    assert found.lines == []


def test_a_changed_input_is_told_first():
    found = difference(module(5), module(4))
    assert lines(found, "removed") == ["p0 = f32[4] parameter(0)"]
    assert lines(found, "added") == ["p0 = f32[5] parameter(0)"]
    assert (found.added, found.removed) == (1, 1)
    assert lines(found, "place") == ["in INPUTS"]


def test_an_added_op_is_told():
    more = Instruction("mul.3", "multiply", parse_shape("f32[2]"), ["add"])
    assert lines(difference(module(4, extra=[more]), module(4)), "added") == ["mul = f32[2] multiply(add)"]


def test_only_the_beginning_of_large_programs_is_compared(monkeypatch):
    monkeypatch.setattr(hlo_difference, "MAX_LINES", len(listing(module(4))))
    assert not difference(module(4), module(4)).cut
    more = Instruction("mul", "multiply", parse_shape("f32[2]"), ["add"])
    assert difference(module(4, extra=[more]), module(4)).cut
