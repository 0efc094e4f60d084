"""Micro-batches in one graph, where the program reads a value in each of them."""

import pytest

from tests.rules.given import given
from tests.rules.situations import accumulated, reading_in_each
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of

BATCHES = 4


@pytest.mark.parametrize(("per_step", "in_each"), [(BATCHES, True), (BATCHES - 1, False)])
def test_reads_in_each_micro_batch_have_to_go_first(per_step, in_each):
    found = outcome_of(find_rule("accumulated-graph"), given(**reading_in_each(BATCHES, per_step=per_step)))
    assert found.status == "failed"
    assert ("the reads have to go first" in found.title) is in_each
    assert (found.confidence == "low") is in_each


def test_graphs_of_reads_are_not_the_micro_batches():
    found = outcome_of(
        find_rule("accumulated-graph"), given(**accumulated(BATCHES, 0.5, graphs_for_reads_ms=20.0))
    )
    assert found.share == pytest.approx(0.3)
