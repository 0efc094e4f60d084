"""Bytes that an instruction moves: slices and updates in place count as themselves, not as the buffer around them."""

import pytest

from tests.preflight import programs
from tpuprof.decode.hlo_text import parse_hlo_text
from tpuprof.preflight.traffic import Traffic, in_any_memory, in_hbm

MIB = 1 << 20
# A stack of 32 layers of 1 MiB each in bf16, a layer of it, and a block that lies in VMEM.
STACK, LAYER, ON_CHIP = "bf16[32,512,1024]{2,1,0}", "bf16[1,512,1024]{2,1,0}", "bf16[1,512,1024]{2,1,0:S(1)}"
AT = "%at = s32[] parameter(2)"


def fused(body: str, root: str, *parameters: str) -> str:
    given = "\n".join(f"  %p{at} = {shape} parameter({at})" for at, shape in enumerate(parameters))
    return f"%fused (p: {parameters[0]}) -> {root} {{\n{given}\n{body}\n}}\n"


def moved(inner: str, result: str, *operands: str, size=in_hbm) -> int:
    made = "\n".join(f"  %a{at} = {shape} parameter({at})" for at, shape in enumerate(operands))
    names = ", ".join(f"%a{at}" for at in range(len(operands)))
    text = f"{made}\n  ROOT %f = {result} fusion({names}), kind=kLoop, calls=%fused"
    module = programs.entry(text, inner)
    return Traffic(module).of(module.entry.instructions["f"], size)


def test_an_update_in_place_costs_the_update():
    inner = fused(
        f"  %n = {LAYER} negate(%p1)\n  ROOT %u = {STACK} dynamic-update-slice(%p0, %n, %p2)",
        STACK,
        STACK,
        LAYER,
        "s32[]",
    )
    assert moved(inner, STACK, STACK, LAYER, "s32[]") == 2 * MIB + 4


def test_a_slice_costs_the_slice_also_in_a_fusion_inside():
    deeper = f"%deep (q: {STACK}) -> {LAYER} {{\n  %q0 = {STACK} parameter(0)\n  %q1 = s32[] parameter(1)\n"
    deeper += f"  ROOT %s = {LAYER} dynamic-slice(%q0, %q1), dynamic_slice_sizes={{1,512,1024}}\n}}\n"
    body = f"  %d = {LAYER} fusion(%p0, %p1), kind=kLoop, calls=%deep\n  ROOT %n = {LAYER} negate(%d)"
    assert moved(deeper + fused(body, LAYER, STACK, "s32[]"), LAYER, STACK, "s32[]") == 2 * MIB + 4


def test_what_something_else_looks_at_is_read_whole():
    body = f"  %s = {LAYER} dynamic-slice(%p0, %p1), dynamic_slice_sizes={{1,512,1024}}\n  %r = bf16[] reduce(%p0)\n"
    body += f"  ROOT %n = {LAYER} multiply(%s, %r)"
    assert moved(fused(body, LAYER, STACK, "s32[]"), LAYER, STACK, "s32[]") == 33 * MIB + 4


def test_a_fusion_inside_that_only_views_a_value_hands_all_of_it_on():
    deeper = f"%deep (q: {STACK}) -> {STACK} {{\n  %q0 = {STACK} parameter(0)\n  ROOT %b = {STACK} bitcast(%q0)\n}}\n"
    body = f"  %d = {STACK} fusion(%p0), kind=kLoop, calls=%deep\n  ROOT %r = {LAYER} reduce(%d)"
    assert moved(deeper + fused(body, LAYER, STACK), LAYER, STACK) == 33 * MIB


def test_what_lies_on_the_chip_costs_no_hbm():
    body = f"  ROOT %n = {ON_CHIP} add(%p0, %p1)"
    inner = fused(body, ON_CHIP, LAYER, ON_CHIP)
    assert moved(inner, ON_CHIP, LAYER, ON_CHIP) == MIB
    assert moved(inner, ON_CHIP, LAYER, ON_CHIP, size=in_any_memory) == 3 * MIB


def test_a_tuple_of_updates_costs_each_update():
    body = f"  %u = {STACK} dynamic-update-slice(%p0, %p1, %p2)\n  %n = {LAYER} negate(%p1)\n"
    body += f"  ROOT %t = ({STACK}, {LAYER}) tuple(%u, %n)"
    assert (
        moved(fused(body, LAYER, STACK, LAYER, "s32[]"), f"({STACK}, {LAYER})", STACK, LAYER, "s32[]")
        == 3 * MIB + 4
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"%x = {STACK} dynamic-update-slice(%a0, %a1, %at)", 2 * MIB),
        (f"%x = {LAYER} dynamic-slice(%a0, %at), dynamic_slice_sizes={{1,512,1024}}", 2 * MIB + 4),
        (f"%x = {STACK} copy(%a0)", 64 * MIB),
        (f"%x = {STACK} broadcast(%at), dimensions={{}}", 32 * MIB + 4),
        (f"%x = {STACK} negate(%missing)", 64 * MIB),
    ],
)
def test_single_ops(line, expected):
    module = programs.entry(
        f"  %a0 = {STACK} parameter(0)\n  %a1 = {LAYER} parameter(1)\n  {AT}\n  ROOT {line}"
    )
    assert Traffic(module).of(module.entry.instructions["x"]) == expected


def test_fusions_that_call_each_other_in_a_circle_end():
    text = f"HloModule m\n\n%f (p: {LAYER}) -> {LAYER} {{\n  %p = {LAYER} parameter(0)\n"
    text += f"  ROOT %g = {LAYER} fusion(%p), kind=kLoop, calls=%f\n}}\n"
    module = parse_hlo_text(text)
    assert Traffic(module).of(module.computations["f"].instructions["g"]) == 2 * MIB
