"""Which compiles a boolean mask makes, and what the finding says of its line."""

from dataclasses import replace

import pytest

from tests.rules.given import compiled, given, steps
from tests.rules.situations import selects
from tpuprof import parts as part
from tpuprof.report.schema import Cause
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.rules.shared.mask_compiles import DIMENSIONS_AT_MOST, counts_changed
from tpuprof.rules.shared.recompiles import FURTHER_FROM_SHARE

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


def test_a_library_that_selects_is_named():
    """A miner of triplets: the user's line calls it, and holds no mask."""
    chosen = selects(1.0)
    inside = "/x/lib/python3.11/site-packages/miners/utils.py:102"
    chosen["report"]["fallbacks"] = [replace(row, inside=inside) for row in chosen["report"]["fallbacks"]]
    found = outcome_of(find_rule("boolean-mask"), given(**chosen, step_compiles=[], steps=steps()))
    assert found.title.startswith(
        "A boolean mask or nonzero at train.py:9 (in miners/utils.py:102) reads its count"
    )


def test_compiles_for_new_counts_are_sold_too():
    found = outcome_with(COUNT, "s64[4,33] became s64[4,41]")
    assert found.price.most.host[part.COMPILE] == pytest.approx(0.5)
    assert found.title.startswith("A boolean mask or nonzero at train.py:9 reads its count back")
    assert found.title.endswith("new counts compile")


def row_of(kind, start, *, step=0, took=100.0, detail="the ops changed: 1 fewer constant"):
    row = replace(compiled(kind, ms=took, step=step), start_ns=start)
    return replace(row, cause=Cause(kind, detail, "train.py", 16))


def found(rule, *rows, selecting=1.0, count=8):
    """What a rule says where a step selects so often by a mask, and these compiles come in each of eight steps."""
    each = [replace(row, step=number) for number in range(count) for row in rows]
    times = {"steps": steps(count=count, compile=90.0), "step_ms": 100.0, "compile_share": 0.9}
    known = {
        "step_compiles": each,
        "records_if_noted": [],
        "framework": "torch_xla",
        "uncut_steps": 0.0,
        "phases": [],
    }
    rest = {"explains_misses": False, "tracing_hidden_ms": 0.0, "cutting_reads": [], "after_capture": None}
    facts = {**selects(selecting), "busy_share": 0.1, "runtime_wait_ms": 0.0}
    return outcome_of(find_rule(rule), given(**facts, **times, **known, **rest))


SHAPE = row_of("shape", 20, detail=COUNT)


def test_other_graphs_behind_a_new_count_are_in_the_upper_end():
    """A detector of 36 masks per step was priced by a seventh of the compiles that those made."""
    outcome = found("boolean-mask", SHAPE, row_of("graph", 10), row_of("graph", 30, took=200.0))
    assert outcome.price.least.host[part.COMPILE] == pytest.approx(1 - 100 / 400)
    assert outcome.price.most.host[part.COMPILE] == pytest.approx(1 - 300 / 400)
    assert "8 further compiles come behind them in the same step" in outcome.title
    assert outcome.confidence == "medium"


@pytest.mark.parametrize(
    "rows",
    [
        [SHAPE, row_of("graph", 10)],  # before the first count
        [row_of("graph", 30)],  # no new count in the step
        [SHAPE, row_of("constant", 30)],
        [SHAPE, row_of("graph", 30, took=100 * FURTHER_FROM_SHARE)],
    ],
)
def test_others_are_no_matter_of_the_masks(rows):
    outcome = found("boolean-mask", *rows)
    assert "further compile" not in outcome.title
    assert outcome.price.most.host[part.COMPILE] == outcome.price.least.host[part.COMPILE]


def test_graphs_that_may_follow_from_a_count_are_doubtful_and_name_the_masks():
    alone = found("recompiles-other", SHAPE, row_of("graph", 30, took=300.0), selecting=0.0)
    assert (alone.price.least.host[part.COMPILE], alone.confidence) == (pytest.approx(0.25), "high")
    assert "mask" not in alone.title
    behind = found("recompiles-other", SHAPE, row_of("graph", 30, took=300.0))
    assert (behind.price.least.host[part.COMPILE], behind.confidence) == (1.0, "low")
    assert behind.price.most == alone.price.most
    assert "8 of them come behind a boolean mask" in behind.title
    assert behind.title.endswith("see boolean-mask")


def test_graphs_before_the_first_count_have_a_cause_of_their_own():
    both = found("recompiles-other", row_of("graph", 10, took=200.0), SHAPE, row_of("graph", 30))
    assert both.price.least.host[part.COMPILE] == pytest.approx(0.5)
    assert both.price.most.host[part.COMPILE] == pytest.approx(0.25)
    assert (both.confidence, "8 of them come behind" in both.title) == ("medium", True)
