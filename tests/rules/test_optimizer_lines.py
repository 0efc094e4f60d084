"""`optimizer-loop` names the line that calls the optimizer, so that reports by line show it."""

from dataclasses import replace

import pytest

from tests.rules.given import given
from tests.rules.situations import updates
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of


def outcome(*lines):
    """Of optimizer calls at these lines (`file:line`, ms)."""
    facts = updates(40.0)
    (row,) = facts["host_stacks"]
    facts["host_stacks"] = [replace(row, source=source, exposed_ms_per_step=ms) for source, ms in lines]
    return outcome_of(find_rule("optimizer-loop"), given(**facts))


def lines(found):
    return [(each.source, each.value) for each in found.evidence if each.source]


def test_the_line_that_calls_is_named():
    found = outcome(("train.py:9", 40.0))
    assert "optimizer.step() at train.py:9 keeps" in found.title
    assert lines(found) == [("train.py:9", 40.0)]


def test_where_no_line_has_half_of_it_the_title_names_none():
    found = outcome(("gan.py:3", 13.0), ("gan.py:7", 14.0), ("gan.py:9", 13.0))
    assert "optimizer.step() keeps" in found.title
    assert lines(found)[0] == ("gan.py:7", 14.0)
    assert len(lines(found)) == 3


@pytest.mark.parametrize(("known", "title"), [(19.0, False), (21.0, True)])
def test_a_line_that_is_unknown_counts_for_the_half(known, title):
    found = outcome(("train.py:9", known), ("", 40.0 - known))
    assert (" at train.py:9" in found.title) is title
    assert lines(found) == [("train.py:9", known)]
