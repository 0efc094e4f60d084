"""Sizes of graphs by step: each counts in the step that was open when it was collected."""

import pytest

from tpuprof.ledger.rows import UNKNOWN, Row
from tpuprof.watch.graph_sizes import GraphSizes

SECOND = 10**9
# The epoch's clock is this far ahead of the rows' clock (ns).
OFFSET = 1_760_000_000 * SECOND


def rows(*numbers):
    return [Row(number, number * SECOND, SECOND) for number in numbers]


def samples(*found):
    """(second, ops) as torch_xla has them: seconds since the epoch."""
    return tuple((at + OFFSET / SECOND, float(ops)) for at, ops in found)


def metric(count, *found):
    return (count, 0.0, samples(*found))


def test_sizes_of_several_graphs_of_a_step_add_up():
    sizes = GraphSizes()
    found = sizes.of_steps(rows(0, 1, 2), metric(3, (0.5, 205), (1.2, 205), (1.7, 30)), OFFSET)
    assert found == [205, 235, 0]


def test_a_graph_of_the_open_step_counts_when_that_ends():
    sizes = GraphSizes()
    both = ((0.5, 205), (1.5, 300))
    assert sizes.of_steps(rows(0), metric(2, *both), OFFSET) == [205]
    # The metric shows old samples again.
    assert sizes.of_steps(rows(1), metric(2, *both), OFFSET) == [300]


def test_where_torch_xla_has_forgotten_sizes_the_steps_before_are_unknown():
    sizes = GraphSizes()
    found = sizes.of_steps(rows(0, 1, 2), metric(9, (1.5, 205), (2.5, 205)), OFFSET)
    assert found == [UNKNOWN, UNKNOWN, 205]


@pytest.mark.parametrize("data", [None, ()])
def test_without_the_metric_sizes_are_unknown(data):
    assert GraphSizes().of_steps(rows(0, 1), data, OFFSET) == [UNKNOWN, UNKNOWN]
