"""Which compiles a boolean mask makes, and what the finding says of its line."""

from dataclasses import replace

import pytest

from tests.rules.given import compiled, given, steps
from tests.rules.situations import selects
from tpuprof import parts as part
from tpuprof.report.schema import Cause
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.rules.tracing.boolean_mask.rule import DIMENSIONS_AT_MOST, counts_changed

WIDE = DIMENSIONS_AT_MOST
COUNT = "s64[29,1] became s64[30,1]"


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        (COUNT, True),
        ("2 inputs changed: s64[29,1] became s64[30,1], s64[29,1] became s64[30,1]", True),
        (f"s64[29,{WIDE}] became s64[30,{WIDE}]", True),
        (f"s64[29,{WIDE + 1}] became s64[30,{WIDE + 1}]", False),
        # A batch of tokens, and one beside the indices.
        ("s64[4,33] became s64[4,41]", False),
        ("2 inputs changed: s64[29,1] became s64[30,1], f32[4,33] became f32[4,41]", False),
        ("", False),
    ],
)
def test_lists_of_indices_are_known_by_their_shape(detail, expected):
    assert counts_changed(detail) is expected


def outcome_with(*details):
    compiles = [
        replace(compiled("shape", step=row), cause=Cause("shape", detail, "train.py", 16))
        for row, detail in enumerate(details)
    ]
    return outcome_of(find_rule("boolean-mask"), given(**selects(1.0), step_compiles=compiles, steps=steps()))


def test_without_a_compile_nothing_of_compiling_is_sold():
    found = outcome_with()
    assert found.price.most.host[part.COMPILE] == 1.0
    assert found.title == "A boolean mask or nonzero at train.py:9 reads its count back once per step"


def test_compiles_for_new_counts_are_sold_too():
    found = outcome_with(COUNT, "s64[4,33] became s64[4,41]")
    assert found.price.most.host[part.COMPILE] == pytest.approx(0.5)
    assert found.title.startswith("A boolean mask or nonzero at train.py:9 reads its count back")
    assert found.title.endswith("new counts compile")
