"""Which ops write a bfloat16 array out again as float32, from their HLO lines."""

import pytest

from tpuprof.model.device.upcast import writes_upcast


def fusion(result, *operands):
    given = ", ".join(f"{each} %operand" for each in operands)
    return f"%fusion.1 = {result} fusion({given}), kind=kLoop, calls=%fused_computation"


NARROW, WIDE = "bf16[8,128]{1,0:T(8,128)(2,1)}", "f32[8,128]{1,0:T(8,128)}"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (fusion(WIDE, NARROW), True),
        (fusion(f"({NARROW}, {WIDE})", NARROW, "f32[128]{0}"), True),
        ("%convert.1 = f32[8,128]{1,0} convert(bf16[8,128]{1,0} %x)", True),
        # Master weights and sums of gradients were float32 before.
        (fusion(WIDE, NARROW, WIDE), False),
        (fusion(NARROW, WIDE), False),
        (fusion("f32[8]{0}", NARROW), False),
        (fusion("f32[128]{0}", "bf16[128]{0}"), False),
        ("%dot.1 = f32[128,128]{1,0} dot(bf16[128,128]{1,0} %x, bf16[128,128]{1,0} %y)", False),
        ("fusion.1", False),
    ],
)
def test_a_line_tells_what_is_widened(line, expected):
    assert writes_upcast(line, "fusion.1", "") is expected


def test_a_matrix_multiplication_may_sum_in_float32():
    assert not writes_upcast(fusion(WIDE, NARROW), "fusion.1", "convolution fusion")


def test_a_kernels_sums_are_no_upcast():
    kernel = fusion(WIDE, NARROW).replace("fusion(", "custom-call(")
    assert not writes_upcast(kernel, "splash.1", "custom-call")
