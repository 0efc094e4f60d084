"""Two sequences of which the other one is the longer now: the program has the same types of inputs, not each its own."""

import pytest

from tpuprof.decode.hlo_text import parse_hlo_text
from tpuprof.model.compile.cause import compare


def pair(a, b, names=("", ""), swap=False, inner=True):
    """Both inputs are embedded by one line of ops; the ops at line 9 are on the first alone."""
    said = [f'metadata={{op_name="{name}"}}' if name else "" for name in names]
    first, second = ("%b", "%a") if swap else ("%a", "%b")
    of_first = b if swap else a
    extra = f"%t = f32[{of_first},4]{{1,0}} negate({first})" if inner else f"%t = f32[4]{{0}} reduce({first})"
    place = 'metadata={op_name="x" source_file="m.py" source_line=9}'
    return parse_hlo_text(
        f"""HloModule step.1

ENTRY %main (a: f32[{a},4], b: f32[{b},4]) -> f32[4] {{
  %a = f32[{a},4]{{1,0}} parameter(0), {said[0]}
  %b = f32[{b},4]{{1,0}} parameter(1), {said[1]}
  {extra}, {place}
  ROOT %r = f32[4]{{0}} add(%t, {second}), {place}
}}
""".replace(", \n", "\n")
    )


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("a", "b"), "2 inputs changed: a f32[64,4] became f32[56,4], b f32[56,4] became f32[64,4]"),
        (("xla__device_data", "xla__device_data"), "2 inputs changed: f32[64,4] became f32[56,4], f32[56,4] became f32[64,4]"),
    ],
    ids=["named", "by place"],
)  # fmt: skip
def test_shapes_that_inputs_exchange_are_a_change_of_shapes(names, said):
    """A padded pair of sentences: "a size in the graph changed, and no input did", to be handed over as an array."""
    cause = compare(pair(56, 64, names), pair(64, 56, names))
    assert (cause.kind, cause.detail, cause.source) == ("shape", said, "m.py:9")


def test_named_inputs_that_kept_their_types_did_not_change():
    names = ("a", "b")
    assert compare(pair(64, 56, names, swap=True), pair(64, 56, names)).kind == "constant"


def test_inputs_in_another_order_of_ops_of_the_same_sizes_did_not_change():
    """Layers whose order Python draws take their weights in another order."""
    assert compare(pair(56, 64, inner=False), pair(64, 56, inner=False)).kind != "shape"
