"""What a collective moves: a parameter or gradient by its name, and no such name for activations."""

import pytest

from tests.preflight import programs
from tpuprof.model.device.collective_role import Roles, direction_of

NAMES = ["norm.weight", "layers.0.up.weight", "x"]
INSIDE = """%matmul (a: bf16[512,1024], b: bf16[1024,1024]) -> bf16[512,1024] {
  %a = bf16[512,1024]{1,0} parameter(0)
  %b = bf16[1024,1024]{1,0} parameter(1)
  ROOT %d = bf16[512,1024]{1,0} convolution(%a, %b), dim_labels=bf_io->bf
}
%cast (a: f32[256,1024]) -> bf16[256,1024] {
  %a = f32[256,1024]{1,0} parameter(0)
  ROOT %c = bf16[256,1024]{1,0} convert(%a)
}
%scale (a: bf16[512,1024], b: bf16[1024]) -> bf16[512,1024] {
  %a = bf16[512,1024]{1,0} parameter(0)
  %b = bf16[1024]{0} parameter(1)
  %e = bf16[512,1024]{1,0} broadcast(%b), dimensions={1}
  ROOT %m = bf16[512,1024]{1,0} multiply(%a, %e)
}
%update (a: f32[256,1024], b: f32[256,1024]) -> f32[256,1024] {
  %a = f32[256,1024]{1,0} parameter(0)
  %b = f32[256,1024]{1,0} parameter(1)
  ROOT %m = f32[256,1024]{1,0} subtract(%a, %b)
}
"""
STEP = programs.entry(
    """  %norm = bf16[1024]{0} parameter(0)
  %weight = f32[256,1024]{1,0} parameter(1)
  %x = bf16[512,1024]{1,0} parameter(2)
  %cast.1 = bf16[256,1024]{1,0} fusion(%weight), kind=kLoop, calls=%cast
  %gather.weight = bf16[1024,1024]{1,0} all-gather(%cast.1), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}
  %matmul.1 = bf16[512,1024]{1,0} fusion(%x, %gather.weight), kind=kOutput, calls=%matmul
  %gather.activation = bf16[2048,1024]{1,0} all-gather(%matmul.1), channel_id=2, replica_groups={{0,1,2,3}}, dimensions={0}
  %scaled = bf16[512,1024]{1,0} fusion(%matmul.1, %norm), kind=kLoop, calls=%scale
  %gather.scaled = bf16[2048,1024]{1,0} all-gather(%scaled), channel_id=3, replica_groups={{0,1,2,3}}, dimensions={0}
  %reduce.activation = bf16[512,1024]{1,0} all-reduce(%scaled), channel_id=4, replica_groups={{0,1,2,3}}, to_apply=%add
  %scaled.2 = bf16[512,1024]{1,0} fusion(%reduce.activation, %norm), kind=kLoop, calls=%scale
  %gradient = f32[1024,1024]{1,0} fusion(%scaled.2, %gather.scaled), kind=kOutput, calls=%matmul
  %scatter.gradient = f32[256,1024]{1,0} reduce-scatter(%gradient), channel_id=5, replica_groups={{0,1,2,3}}, dimensions={0}
  ROOT %updated = f32[256,1024]{1,0} fusion(%weight, %scatter.gradient), kind=kLoop, calls=%update""",
    INSIDE,
    ", input_output_alias={ {}: (1, {}, may-alias) }",
)


def name(instruction: str, kind: str) -> str:
    return Roles(STEP, NAMES).of(instruction, kind, "").parameter


def test_a_parameters_gather_and_its_gradients_scatter_have_its_name():
    assert name("gather.weight", "all-gather") == "layers.0.up.weight"
    assert name("scatter.gradient", "reduce-scatter") == "layers.0.up.weight"


def test_activations_have_no_parameters_name():
    assert name("gather.activation", "all-gather") == ""
    assert name("gather.scaled", "all-gather") == ""
    assert name("reduce.activation", "all-reduce") == ""


IN_PIECES = """  %weight = bf16[256,1024]{1,0} parameter(0)
  %other = bf16[256,1024]{1,0} parameter(1)
  %start.1 = (bf16[256,1024]{1,0}, bf16[128,1024]{1,0}, u32[]) slice-start(%weight), slice={[0:128], [0:1024]}
  %done.1 = bf16[128,1024]{1,0} slice-done(%start.1)
  %start.2 = (bf16[256,1024]{1,0}, bf16[128,1024]{1,0}, u32[]) slice-start(%SECOND), slice={[128:256], [0:1024]}
  %done.2 = bf16[128,1024]{1,0} slice-done(%start.2)
  %whole = bf16[256,1024]{1,0} custom-call(%done.1, %done.2), custom_call_target="TARGET"
  ROOT %gather = bf16[1024,1024]{1,0} all-gather(%whole), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}"""


@pytest.mark.parametrize(
    ("second", "target", "expected"),
    [
        ("weight", "ConcatBitcast", "up.weight"),
        ("other", "ConcatBitcast", ""),
        ("weight", "tpu_custom_call", ""),
    ],
)
def test_a_parameter_that_the_compiler_reads_in_pieces_is_one_value(second, target, expected):
    step = programs.entry(IN_PIECES.replace("SECOND", second).replace("TARGET", target))
    assert Roles(step, ["up.weight", "down.weight"]).of("gather", "all-gather", "").parameter == expected


@pytest.mark.parametrize(
    ("scope", "direction"),
    [
        ("jit(step)/shard_map/psum", ""),
        ("jit(step)/jvp(Net)/psum", "forward"),
        ("jit(step)/transpose(jvp(Net))/psum", "backward"),
        ("Model/layers.1/all_reduce", "forward"),
        ("Model@backward/layers.1/all_reduce", "backward"),
    ],
)
def test_a_collective_of_jax_is_of_a_pass_where_its_scope_has_a_derivative(scope, direction):
    """Metrics and updates are reduced in neither."""
    assert direction_of(scope, "") == direction
