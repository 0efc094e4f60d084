"""Gathers that make activations whole on every device are said, with the advice to look at a constraint."""

import pytest

from tests.rules.given import computed, given, op, transfer
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of


def outcome(exposed, repeated, kind="collective"):
    rows = [transfer("all-gather", exposed, 0.0), transfer("all-reduce", 10.0, 0.0)]
    ops = computed(op(), op(rows[0].name, 5.0, kind=kind, repeated=repeated))
    signals = given(**{**ops, "report": {"ops": ops["ops"]}}, collectives=rows, collective_share=0.2)
    return outcome_of(find_rule("exposed-collectives"), signals)


@pytest.mark.parametrize(
    ("exposed", "repeated", "kind", "said"),
    [
        (10.0, 4, "collective", True),
        (9.9, 4, "collective", False),
        (10.0, 0, "collective", False),
        (10.0, None, "collective", False),
        (10.0, 4, "compute", False),
    ],
)
def test_they_are_said_where_they_are_most_of_it(exposed, repeated, kind, said):
    found = outcome(exposed, repeated, kind)
    assert ("mostly to make activations whole on every device" in found.title) is said
    assert found.cases == (frozenset({"activations"}) if said else frozenset())
