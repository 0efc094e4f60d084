"""Which ops each device computes alike: those of values that are whole on all, as far as the program tells."""

import numpy as np
import pytest

from tests.preflight import programs
from tpuprof.decode import hlo_pb2
from tpuprof.model.device import same_work as module_of
from tpuprof.model.device.activity import OpNames
from tpuprof.model.device.same_work import note_same_work, repeated_ops, same_work

DEVICES = 4
WHOLE, SPLIT = "sharding={replicated}", "sharding={devices=[4,1]<=[4]}"
DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
ALL = "channel_id=1, replica_groups=[1,4]<=[4], use_global_device_ids=true"


def repeated(body, before=""):
    return repeated_ops(programs.entry(body, before), DEVICES)


def inputs(x=SPLIT, w=WHOLE):
    return f"""  %x = f32[64,64]{{1,0}} parameter(0), {x}
  %w = f32[64,64]{{1,0}} parameter(1), {w}
"""


@pytest.mark.parametrize(
    ("x", "w", "expected"),
    [(WHOLE, WHOLE, {"h", "t"}), (SPLIT, WHOLE, set()), (WHOLE, SPLIT, set()), ("metadata={}", WHOLE, set())],
    ids=["a batch that is whole", "a batch that is split", "weights that are split", "unknown"],
)
def test_a_product_is_repeated_where_all_that_goes_in_is_whole(x, w, expected):
    body = f"""  %h = f32[64,64]{{1,0}} dot(%x, %w), {DOT}
  ROOT %t = f32[64,64]{{1,0}} tanh(%h)"""
    assert repeated(inputs(x, w) + body) == expected


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ("replica_groups=[1,4]<=[4]", True),
        ("replica_groups={{0,1,2,3}}", True),
        ("replica_groups={}", True),
        ("replica_groups={{0,1},{2,3}}", False),
        ("replica_groups=[2,2]<=[4]", False),
    ],
)
def test_what_is_gathered_from_all_devices_is_whole(groups, expected):
    body = f"""  %h = f32[64,64]{{1,0}} dot(%x, %w), {DOT}
  %g = f32[256,64]{{1,0}} all-gather(%h), channel_id=1, {groups}, dimensions={{0}}
  ROOT %again = f32[256,64]{{1,0}} dot(%g, %w), {DOT}"""
    assert ("again" in repeated(inputs() + body)) is expected


@pytest.mark.parametrize(
    ("made", "groups", "found"),
    [
        (f"dot(%x, %w), {DOT}", ALL, {"g", "t", "s"}),
        # A table, or weights in another type: each device computes on with the whole of those anyway.
        ("negate(%x)", ALL, set()),
        (f"dot(%x, %w), {DOT}", "channel_id=1, replica_groups={{0,1},{2,3}}", set()),
    ],
)
def test_what_is_computed_of_activations_that_were_gathered_is_repeated(made, groups, found):
    """A constraint left the batch's axis out: sums over the whole batch were a fifth of each device's time."""
    body = f"""  %h = f32[64,64]{{1,0}} {made}
  %g = f32[256,64]{{1,0}} all-gather(%h), {groups}, dimensions={{0}}
  %t = f32[256,64]{{1,0}} tanh(%g)
  %s = f32[256,64]{{1,0}} negate(%t)
  %id = u32[] partition-id()
  ROOT %own = f32[64,64]{{1,0}} dynamic-slice(%s, %id), dynamic_slice_sizes={{64,64}}"""
    assert repeated(inputs() + body) == found


def test_gradients_that_are_scattered_and_gathered_are_no_activations():
    """Each device keeps a part of the optimizer's state, and weights are put together again."""
    body = f"""  %h = f32[64,64]{{1,0}} dot(%x, %w), {DOT}
  %part = f32[16,64]{{1,0}} reduce-scatter(%h), {ALL}, dimensions={{0}}, to_apply=%add
  %g = f32[64,64]{{1,0}} all-gather(%part), {ALL}, dimensions={{0}}
  ROOT %new = f32[64,64]{{1,0}} subtract(%w, %g)"""
    assert repeated(inputs() + body) == set()


def test_parameters_that_are_gathered_meet_a_batch_that_is_split():
    body = f"""  %g = f32[256,64]{{1,0}} all-gather(%w), {ALL}, dimensions={{0}}
  ROOT %h = f32[64,64]{{1,0}} dot(%x, %g), {DOT}"""
    assert repeated(inputs(SPLIT, SPLIT) + body) == set()


@pytest.mark.parametrize(("x", "found"), [(WHOLE, {"turned", "h"}), (SPLIT, set())])
def test_what_is_only_made_for_such_a_product_is_repeated_as_well(x, found):
    """Each device turned the whole batch for its convolution, 47 % of its time: only what came after it was told."""
    body = f"""  %turned = f32[64,64]{{1,0}} transpose(%x), dimensions={{1,0}}
  ROOT %h = f32[64,64]{{1,0}} dot(%turned, %w), {DOT}"""
    assert repeated(inputs(x) + body) == found


def test_what_the_program_returns_is_not_only_made_for_a_product():
    body = f"""  %turned = f32[64,64]{{1,0}} transpose(%x), dimensions={{1,0}}
  %h = f32[64,64]{{1,0}} dot(%turned, %w), {DOT}
  ROOT %out = (f32[64,64]{{1,0}}, f32[64,64]{{1,0}}) tuple(%h, %turned)"""
    assert "turned" not in repeated(inputs(WHOLE) + body)


def test_an_update_of_weights_that_all_devices_keep_is_not_meant():
    body = f"""  %g = f32[64,64]{{1,0}} dot(%x, %w), {DOT}
  %sum = f32[64,64]{{1,0}} all-reduce(%g), {ALL}, to_apply=%add
  ROOT %new = f32[64,64]{{1,0}} subtract(%w, %sum)"""
    assert repeated(inputs() + body) == set()


@pytest.mark.parametrize("takes", ["%id = u32[] partition-id()", "%id = u32[] rng-get-and-update-state()"])
def test_what_a_device_takes_by_its_number_is_its_own(takes):
    body = f"""  {takes}
  %piece = f32[16,64]{{1,0}} dynamic-slice(%x, %id), dynamic_slice_sizes={{16,64}}
  ROOT %h = f32[16,64]{{1,0}} dot(%piece, %w), {DOT}"""
    assert repeated(inputs(WHOLE) + body) == set()


def test_a_callback_may_answer_each_device_otherwise_and_a_matmul_by_a_library_multiplies():
    body = """  %m = f32[64,64]{1,0} custom-call(%x, %w), custom_call_target="__onednn$matmul"
  %c = f32[64,64]{1,0} custom-call(%m), custom_call_target="xla_python_cpu_callback"
  ROOT %h = f32[64,64]{1,0} dot(%c, %w), """
    assert repeated(inputs(WHOLE) + body + DOT) == {"m"}


INSIDE = f"""%inside (a: f32[64,64], b: f32[64,64]) -> f32[64,64] {{
  %a = f32[64,64]{{1,0}} parameter(0)
  %b = f32[64,64]{{1,0}} parameter(1)
  ROOT %d = f32[64,64]{{1,0}} dot(%a, %b), {DOT}
}}
"""


@pytest.mark.parametrize("call", ["fusion", "call"])
def test_what_a_call_or_a_fusion_holds_is_followed(call):
    how = "kind=kOutput, calls=%inside" if call == "fusion" else "to_apply=%inside"
    body = f"  ROOT %f = f32[64,64]{{1,0}} {call}(%x, %w), {how}"
    assert repeated(inputs(WHOLE) + body, INSIDE) >= {"f", "d"}
    assert repeated(inputs(SPLIT) + body, INSIDE) == set()


LOOP = f"""%body (s: (s32[], f32[64,64], f32[64,64])) -> (s32[], f32[64,64], f32[64,64]) {{
  %s = (s32[], f32[64,64]{{1,0}}, f32[64,64]{{1,0}}) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %h = f32[64,64]{{1,0}} get-tuple-element(%s), index=1
  %v = f32[64,64]{{1,0}} get-tuple-element(%s), index=2
  %d = f32[64,64]{{1,0}} dot(%h, %v), {DOT}
  ROOT %next = (s32[], f32[64,64]{{1,0}}, f32[64,64]{{1,0}}) tuple(%i, %NEXT, %v)
}}
%cond (s: (s32[], f32[64,64], f32[64,64])) -> pred[] {{
  %s = (s32[], f32[64,64]{{1,0}}, f32[64,64]{{1,0}}) parameter(0)
  ROOT %go = pred[] constant(true)
}}
"""


@pytest.mark.parametrize(("x", "follows"), [(WHOLE, True), (SPLIT, False)])
def test_the_turns_of_a_loop_are_followed_part_by_part(x, follows):
    body = """  %zero = s32[] constant(0)
  %init = (s32[], f32[64,64]{1,0}, f32[64,64]{1,0}) tuple(%zero, %x, %w)
  ROOT %loop = (s32[], f32[64,64]{1,0}, f32[64,64]{1,0}) while(%init), condition=%cond, body=%body"""
    assert ("d" in repeated(inputs(x) + body, LOOP.replace("%NEXT", "%d"))) is follows


def test_what_a_loop_makes_a_devices_own_is_its_own_in_the_next_turn():
    own = "%id = u32[] partition-id()\n  %n = f32[64,64]{1,0} add(%d, %id)\n  ROOT"
    loop = LOOP.replace("ROOT %next", f"{own} %next").replace("%NEXT", "%n")
    body = """  %zero = s32[] constant(0)
  %init = (s32[], f32[64,64]{1,0}, f32[64,64]{1,0}) tuple(%zero, %x, %w)
  ROOT %loop = (s32[], f32[64,64]{1,0}, f32[64,64]{1,0}) while(%init), condition=%cond, body=%body"""
    assert "d" not in repeated(inputs(WHOLE) + body, loop)


def test_a_program_that_calls_itself_ends():
    inside = "%again (a: f32[64,64]) -> f32[64,64] {\n  %a = f32[64,64]{1,0} parameter(0)\n  ROOT %c = f32[64,64]{1,0} call(%a), to_apply=%again\n}\n"
    assert repeated(inputs(WHOLE) + "  ROOT %f = f32[64,64]{1,0} call(%x), to_apply=%again", inside) == set()


def serialized(devices, replicas=1):
    module = hlo_pb2.HloModuleProto(name=b"step", entry_computation_name=b"main", entry_computation_id=1)
    module.device_assignment.computation_count = devices
    module.device_assignment.replica_count = replicas
    main = module.computations.add(name=b"main", id=1, root_id=2)
    main.instructions.add(name=b"x", opcode=b"parameter", id=1).sharding.type = 0
    main.instructions.add(name=b"h", opcode=b"dot", id=2, operand_ids=[1, 1])
    return module.SerializeToString()


def test_only_programs_of_several_devices_are_asked(monkeypatch):
    assert same_work(serialized(4)) == (4, frozenset({"h"}))
    assert same_work(b"no program") == (0, frozenset())
    monkeypatch.setattr(module_of, "repeated_ops", lambda *_: pytest.fail("one device"))
    assert same_work(serialized(1)) == same_work(serialized(4, replicas=2)) == (0, frozenset())


def test_ops_of_unknown_programs_are_left_alone():
    class Device:
        ops = OpNames(
            ["h", "h", "y"], ["", "", ""], [""] * 3, np.zeros(3, np.int64), ["step", "other", "step"],
            [""] * 3, [""] * 3, np.zeros(3, np.int64), np.zeros(3, np.int64), None,
        )  # fmt: skip

    note_same_work([Device, Device], {"step": serialized(4)})
    assert Device.ops.repeated == {0: 4, 2: 0}
