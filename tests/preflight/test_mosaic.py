"""Products that are read from a Pallas kernel's code."""

import base64

import pytest

pytest.importorskip("jaxlib")

from tpuprof.preflight.mosaic import all_products, name_of, products

# Two products of 8 x 128 x 256 in each of four rounds, one behind a condition; a loop of unknown length counts once.
KERNEL = """
"func.func"() ({{
^bb0(%left: vector<8x128xbf16>, %right: vector<128x256xbf16>, %sum: vector<8x256xf32>, %many: index, %if: i1):
  %from = "arith.constant"() {{value = 0 : index}} : () -> index
  %to = "arith.constant"() {{value = 7 : index}} : () -> index
  %by = "arith.constant"() {{value = 2 : index}} : () -> index
  "stable_mosaic.scf.for"(%from, {to}, %by) ({{
  ^bb0(%i: index):
    %a = "stable_mosaic.tpu.matmul"(%left, %right, %sum) : (vector<8x128xbf16>, vector<128x256xbf16>, vector<8x256xf32>) -> vector<8x256xf32>
    "stable_mosaic.scf.if"(%if) ({{
      %b = "stable_mosaic.tpu.matmul"(%left, %right, %sum) : (vector<8x128xbf16>, vector<128x256xbf16>, vector<8x256xf32>) -> vector<8x256xf32>
    }}) : (i1) -> ()
  }}) : (index, index, index) -> ()
}}) {{sym_name = "main", function_type = () -> (), iteration_bounds = array<i64: {grid}>}} : () -> ()
"""
ONE = 2 * 8 * 128 * 256


def body(to="%to", grid="3, 5"):
    return base64.b64encode(
        KERNEL.format(to=to, grid=grid).replace('"func.func"', '"a.kernel"').encode()
    ).decode()


@pytest.mark.parametrize(
    ("kernel", "flops"),
    [
        (body(), 3 * 5 * 4 * 2 * ONE),
        (body(grid="1"), 4 * 2 * ONE),
        (body(to="%many"), 3 * 5 * 2 * ONE),
        # A grid that is known at run time only.
        (body(grid="3, -9223372036854775808"), None),
        (base64.b64encode(b"no module").decode(), None),
        ("QUJD", None),
    ],
)
def test_products_are_multiplied_by_loops_and_grid(kernel, flops):
    assert products(kernel) == flops


def test_what_cannot_be_read_is_left_out_of_a_program():
    text = "".join(
        f'backend_config={{"custom_call_config":{{"body":"{each}"}}}}\n' for each in (body(), "QUJD")
    )
    assert all_products(text) == {name_of(body()): 3 * 5 * 4 * 2 * ONE}
