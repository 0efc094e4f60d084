"""How much programs differ decides which earlier one a compile is compared with."""

from collections import Counter

from tpuprof.model.compile.outline import Outline

FLOATS, LONGER = ("f32", (8, 4)), ("f32", (9, 4))
# Bounds of slices that each step takes elsewhere.
WINDOWS = [Counter(f"{{[{step * 10 + row}:{step * 10 + row + 5}]}}" for row in range(9)) for step in range(2)]


def outline(inputs=2, types=(FLOATS,), adds=5, literals=WINDOWS[0]):
    return Outline(Counter(list(types) * inputs), Counter(add=adds), literals, Counter(), Counter(), True)


def test_numbers_that_differ_count_where_another_number_of_inputs_came():
    """A log made one more input and three more ops: its step was "of other ops", where all steps cut other windows."""
    nearer = outline(literals=WINDOWS[1])
    new, logged = outline(), outline(inputs=3, adds=8, literals=WINDOWS[1])
    assert new.distance(nearer) < new.distance(logged)
    assert new.distance(logged) - new.distance(outline(inputs=3, adds=8)) == 18


def test_numbers_that_follow_from_the_sizes_of_inputs_do_not_count():
    """A longer batch is divided by another number."""
    new = outline(types=(LONGER,))
    assert new.distance(outline(literals=WINDOWS[1])) == new.distance(outline())
