"""Which of the earlier programs a compiled one is compared with."""

from collections import Counter

import pytest

from tpuprof.model.compile.outline import Outline


def outline(*types, opcodes=("add",)):
    return Outline(Counter(types), Counter(opcodes), Counter(), Counter(), Counter(), has_lines=True)


@pytest.mark.parametrize(
    ("earlier", "nearest"),
    [
        # `jnp.stack` of a list joins eight arrays of 16, and another one that grows.
        ([["f32[16]"] * 8, [*["f32[16]"] * 8, "f32[9]"]], 1),
        ([[*["f32[16]"] * 8, "f32[9]", "f32[3]"], [*["f32[16]"] * 8, "f32[9]"]], 1),
        # Two inputs that changed are more than one that came.
        ([["f32[16]"] * 8, [*["f32[16]"] * 7, "f32[9]", "f32[8]"]], 0),
    ],
)
def test_a_program_with_as_many_inputs_is_nearer_than_one_that_lacks_one(earlier, nearest):
    new = outline(*["f32[16]"] * 8, "f32[10]")
    distances = [new.distance(outline(*types)) for types in earlier]
    assert min(range(len(distances)), key=lambda at: distances[at]) == nearest
