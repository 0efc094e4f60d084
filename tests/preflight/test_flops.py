"""FLOPs of matrix products in traced and compiled programs."""

import pytest

from tests.preflight import programs
from tpuprof.preflight import mosaic
from tpuprof.preflight.flops import computation_flops
from tpuprof.preflight.pricing import Prices
from tpuprof.preflight.targets import parse_target


def flops(body: str, before: str = "") -> int:
    module = programs.entry(body, before)
    return computation_flops(module, module.entry)


def test_a_dot():
    body = """  %x = f32[8,64] parameter(0)
  %w = f32[64,32] parameter(1)
  ROOT %d = f32[8,32] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
    assert flops(body) == 2 * 8 * 64 * 32


def test_a_matmul_as_the_tpu_compiler_writes_it():
    body = """  %x = bf16[4096,256]{1,0} parameter(0)
  %w = bf16[256,768]{1,0} parameter(1)
  ROOT %c = bf16[4096,768]{1,0} convolution(%x, %w), dim_labels=bf_io->bf"""
    assert flops(body) == 2 * 4096 * 256 * 768


def test_a_batched_matmul_counts_no_padding():
    # A batch of 16 as a convolution over a window that meets data at one position each.
    body = """  %x = bf16[16,512,128]{2,1,0} parameter(0)
  %w = bf16[16,512,128]{2,1,0} parameter(1)
  ROOT %c = bf16[16,512,512]{2,1,0} convolution(%x, %w), window={size=16 stride=15 pad=0_0 lhs_dilate=16}, dim_labels=0bf_0oi->0bf"""
    assert flops(body) == 2 * 16 * 512 * 512 * 128


def test_an_image_convolution_counts_window_positions_on_data_only():
    # 3 x 3 window on a 4 x 4 image with padding 1: 10 of 12 positions an axis.
    body = """  %x = bf16[1,4,4,8]{3,2,1,0} parameter(0)
  %w = bf16[3,3,8,16]{3,2,1,0} parameter(1)
  ROOT %c = bf16[1,4,4,16]{3,2,1,0} convolution(%x, %w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"""
    assert flops(body) == 2 * 10 * 10 * 8 * 16


def test_fusions_count_and_loops_multiply():
    before = """%fused (x: f32[8,64], w: f32[64,32]) -> f32[8,32] {
  %x = f32[8,64] parameter(0)
  %w = f32[64,32] parameter(1)
  ROOT %d = f32[8,32] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

%body (arg: (s32[], f32[8,64], f32[64,32])) -> (s32[], f32[8,64], f32[64,32]) {
  %arg = (s32[], f32[8,64], f32[64,32]) parameter(0)
  %one = s32[] constant(1)
  %i = s32[] get-tuple-element(%arg), index=0
  %x = f32[8,64] get-tuple-element(%arg), index=1
  %w = f32[64,32] get-tuple-element(%arg), index=2
  %f = f32[8,32] fusion(%x, %w), kind=kOutput, calls=%fused
  %next = s32[] add(%i, %one)
  ROOT %out = (s32[], f32[8,64], f32[64,32]) tuple(%next, %x, %w)
}

%condition (arg: (s32[], f32[8,64], f32[64,32])) -> pred[] {
  %arg = (s32[], f32[8,64], f32[64,32]) parameter(0)
  %i = s32[] get-tuple-element(%arg), index=0
  %limit = s32[] constant(6)
  ROOT %c = pred[] compare(%i, %limit), direction=LT
}
"""
    body = """  %x = f32[8,64] parameter(0)
  %w = f32[64,32] parameter(1)
  %start = s32[] constant(0)
  %t = (s32[], f32[8,64], f32[64,32]) tuple(%start, %x, %w)
  ROOT %while.1 = (s32[], f32[8,64], f32[64,32]) while(%t), condition=%condition, body=%body"""
    assert flops(body, before) == 6 * 2 * 8 * 64 * 32


def test_a_kernel_counts_with_the_work_that_it_states():
    stated = '"cost_estimate":{"flops":"1080033280","transcendentals":"2","bytes_accessed":"8388608"}'
    text = """  %q = bf16[64,128]{{1,0}} parameter(0)
  %kernel = bf16[64,128]{{1,0}} custom-call(%q), custom_call_target="tpu_custom_call", backend_config={{"custom_call_config":{{"body":"abc"{0}}}}}
  ROOT %out = bf16[64,128]{{1,0}} custom-call(%kernel), custom_call_target="other", backend_config={{"custom_call_config":{{"body":"abc"{0}}}}}"""
    module = programs.entry(text.format("," + stated))
    assert computation_flops(module, module.entry) == 1_080_033_280
    silent = programs.entry(text.format(""))
    assert computation_flops(silent, silent.entry) == 0
    prices = Prices(module, parse_target("v5e-1"))
    kernel = module.entry.instructions["kernel"]
    # 8 MiB at 819 GB/s takes longer than 1.08 GFLOP at 197 TFLOP/s.
    assert prices.compute_ps(kernel) == pytest.approx(8388608 / 819e9 * 1e12, rel=0.01)


def test_a_kernel_that_states_nothing_counts_with_the_products_in_its_code():
    text = """  %q = bf16[64,128]{1,0} parameter(0)
  ROOT %kernel = bf16[64,128]{1,0} custom-call(%q), custom_call_target="tpu_custom_call", backend_config={"custom_call_config":{"body":"QUJD"}}"""
    module = programs.entry(text)
    kernel = module.entry.instructions["kernel"]
    target = parse_target("v5e-1")
    written = Prices(module, target).compute_ps(kernel)
    module.kernel_flops = {mosaic.name_of("QUJD"): 197_000_000_000}
    assert computation_flops(module, module.entry) == 197_000_000_000
    # A millisecond at 197 TFLOP/s.
    assert Prices(module, target).compute_ps(kernel) == pytest.approx(1e9, rel=0.01)
    module.kernel_flops = {mosaic.name_of("another"): 197_000_000_000}
    assert Prices(module, target).compute_ps(kernel) == written


@pytest.mark.parametrize(
    ("op", "cycles", "milliseconds"),
    [
        # 5.37 GB: estimated at 15.7 ms, measured at 4.4 ms on a v6e.
        ("broadcast(%scalar), dimensions={}", 27_402_272, 4.43),
        # A copy reads as much as it writes.
        ("copy(%values)", 54_804_544, 8.86),
        # What computes is priced as the compiler says.
        ("negate(%values)", 27_402_272, 15.66),
        # An estimate that is shorter than what was measured stays.
        ("copy(%values)", 1_750_000, 1.0),
    ],
)
def test_an_op_that_only_moves_values_takes_what_was_measured_at_most(op, cycles, milliseconds):
    text = """  %values = f32[5,1024,1024,256]{3,2,1,0} parameter(0)
  %scalar = f32[] constant(1)
  ROOT %moved = f32[5,1024,1024,256]{3,2,1,0} OP, backend_config={"estimated_cycles":"CYCLES"}"""
    module = programs.entry(text.replace("OP", op).replace("CYCLES", str(cycles)))
    price = Prices(module, parse_target("v6e-4")).compute_ps(module.entry.instructions["moved"])
    assert price == pytest.approx(milliseconds * 1e9, rel=0.01)
