"""Which sorts a program uses a part of: what they give is followed to where it is used."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.preflight import programs
from tpuprof.model.device import sort_uses
from tpuprof.model.device.sort_uses import READ_FROM_SHARE, sorts_for_a_part, used_in_part

HEAD = """%less (a: f32[], b: f32[]) -> pred[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %lt = pred[] compare(%a, %b), direction=LT
}

"""
SORT = "%sort.1 = f32[1000]{0} sort(%x), dimensions={0}, to_apply=%less"


def used(body, before="", sort=SORT):
    text = f"  %x = f32[1000]{{0}} parameter(0)\n  {sort}\n"
    return used_in_part(programs.entry(text + "\n".join(f"  {line}" for line in body), HEAD + before))


def cut(to, of="%sort.1"):
    return f"%cut = f32[{to}]{{0}} slice({of}), slice={{[0:{to}]}}"


@pytest.mark.parametrize(("to", "found"), [(8, True), (500, True), (501, False), (1000, False)])
def test_a_slice_says_how_much_is_used(to, found):
    assert bool(used([cut(to), f"ROOT %out = f32[{to}]{{0}} negate(%cut)"])) is found


@pytest.mark.parametrize(
    "body",
    [
        ["ROOT %out = f32[1000]{0} negate(%sort.1)"],
        ["ROOT %out = f32[1000]{0} copy(%sort.1)"],
        [cut(8), "ROOT %out = (f32[8]{0}, f32[1000]{0}) tuple(%cut, %sort.1)"],
        # Each value of it is an index.
        ["ROOT %out = f32[1000]{0} gather(%x, %sort.1), offset_dims={}, collapsed_slice_dims={0}"],
        [
            "%start = s32[] constant(0)",
            "ROOT %out = f32[8]{0} dynamic-slice(%x, %sort.1), dynamic_slice_sizes={8}",
        ],
    ],
    ids=["computed with", "returned", "returned beside a slice", "as indices", "as a start"],
)
def test_what_is_used_whole_is_no_part(body):
    assert used(body) == frozenset()


def test_the_largest_come_first_in_a_sort_that_is_turned_around():
    body = ["%turned = f32[1000]{0} reverse(%sort.1), dimensions={0}", cut(8, "%turned")]
    assert used([*body, "ROOT %out = f32[8]{0} negate(%cut)"]) == {"sort.1"}


PAIR = """%by_key (a: u32[], b: u32[], c: s32[], d: s32[]) -> pred[] {
  %a = u32[] parameter(0)
  %b = u32[] parameter(1)
  ROOT %lt = pred[] compare(%a, %b), direction=LT
}

"""


def permutation(to):
    """The two sorts of a random permutation, of which a fusion takes so many values."""
    inside = f"""%taken (p: s32[1000]) -> s32[{to}] {{
  %p = s32[1000]{{0}} parameter(0)
  %cut = s32[{to}]{{0}} slice(%p), slice={{[0:{to}]}}
  ROOT %more = s32[{to}]{{0}} add(%cut, %cut)
}}

"""
    body = f"""  %x = u32[1000]{{0}} parameter(0)
  %i = s32[1000]{{0}} iota(), iota_dimension=0
  %sort.0 = (u32[1000]{{0}}, s32[1000]{{0}}) sort(%x, %i), dimensions={{0}}, to_apply=%by_key
  %first = s32[1000]{{0}} get-tuple-element(%sort.0), index=1
  %sort.2 = (u32[1000]{{0}}, s32[1000]{{0}}) sort(%x, %first), dimensions={{0}}, to_apply=%by_key
  %last = s32[1000]{{0}} get-tuple-element(%sort.2), index=1
  ROOT %out = s32[{to}]{{0}} fusion(%last), kind=kLoop, calls=%taken"""
    return used_in_part(programs.entry(body, PAIR + inside))


@pytest.mark.parametrize(("to", "found"), [(10, {"sort.0", "sort.2"}), (900, set())])
def test_the_sorts_of_a_permutation_have_the_use_of_the_last(to, found):
    assert permutation(to) == found


@pytest.mark.parametrize(("to", "found"), [(10, {"sort.1"}), (900, set())])
def test_a_sort_in_a_call_is_used_where_that_is(to, found):
    """XLA's CPU compiler calls a computation for an op that several threads share."""
    inside = f"%several (p: f32[1000]) -> f32[1000] {{\n  %p = f32[1000]{{0}} parameter(0)\n  ROOT {SORT.replace('%x', '%p')}\n}}\n\n"
    call = "%called = f32[1000]{0} call(%x), to_apply=%several"
    body = [cut(to, "%called"), f"ROOT %out = f32[{to}]{{0}} negate(%cut)"]
    assert used(body, inside, call) == found


def test_a_program_that_calls_itself_ends():
    inside = f"%again (p: f32[1000]) -> f32[1000] {{\n  %p = f32[1000]{{0}} parameter(0)\n  {SORT.replace('%x', '%p')}\n  ROOT %c = f32[1000]{{0}} call(%sort.1), to_apply=%again\n}}\n\n"
    assert (
        used(["ROOT %f = f32[1000]{0} call(%x), to_apply=%again"], inside, "%n = f32[1000]{0} negate(%x)")
        == set()
    )


@pytest.mark.parametrize(
    ("share", "name", "read"),
    [(READ_FROM_SHARE, "sort.1", True), (READ_FROM_SHARE - 0.001, "sort.1", False), (0.5, "sorted.1", False)],
)
def test_programs_are_read_where_sorts_take_enough(monkeypatch, share, name, read):
    monkeypatch.setattr(sort_uses, "_of_program", lambda _data: frozenset({"sort.1"}))
    ops = SimpleNamespace(name=[name, "dot.1"], program=["step", "step"])
    took = np.array([int(1000 * share), 1000 - int(1000 * share)])
    device = SimpleNamespace(ops=ops, op_events=SimpleNamespace(op=np.array([0, 1]), self_ps=took))
    assert sorts_for_a_part(device, {"step": b""}) == ({("step", "sort.1")} if read else frozenset())


def test_a_damaged_program_tells_nothing():
    assert sort_uses._of_program(b"\x00damaged") == frozenset()
