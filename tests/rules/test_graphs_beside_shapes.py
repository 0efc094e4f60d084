"""Another graph in one step, where most steps compile for a new shape anyway."""

from dataclasses import replace

import pytest

from tests.rules.given import compiled, given, steps
from tpuprof.report.schema import Cause
from tpuprof.rules.compile.recompiles_other.rule import MOST_STEPS
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of


def outcome(of_shape, line="train.py:80"):
    """Ten steps of 100 ms: some compile for a new length, and one, which logs, another graph for 70 ms per step."""
    rows = [
        replace(
            compiled("shape", 10.0, at),
            cause=Cause("shape", f"an input changed: s64[8,{at + 1}] became s64[8,{at + 2}]"),
            frames=["main (train.py:80)"],
        )
        for at in range(of_shape)
    ]
    rows.append(
        replace(
            compiled("graph", 700.0, 9),
            cause=Cause("graph", "the ops changed: 1 fewer add"),
            frames=[f"main ({line})"],
        )
    )
    given_ = given(
        steps=steps(10, compile=80.0), step_ms=100.0, compile_share=0.8, step_compiles=rows, framework="torch_xla",
        phases=[], records_if_noted=[], after_capture=None, uncut_steps=[], cutting_reads=[], explains_misses=False,
        report={"fallbacks": [], "compiles": rows, "host_reads": []},
    )  # fmt: skip
    return outcome_of(find_rule("recompiles-other"), given_)


@pytest.mark.parametrize(
    ("of_shape", "sure"), [(int(10 * MOST_STEPS), False), (int(10 * MOST_STEPS) - 1, True)]
)
def test_a_graph_that_would_compile_for_its_shape_anyway_is_priced_from_nothing(of_shape, sure):
    """A curriculum of growing lengths: the step behind the log "saves 507 ms per step", with high confidence."""
    found = outcome(of_shape)
    assert found.status == "failed"
    assert ("see recompiles-shape" in found.title) is not sure
    assert (found.price.least.host["compile"] == pytest.approx(1.0)) is not sure
    assert (found.confidence == "low") is not sure


def test_graphs_of_another_line_are_their_own():
    assert "see recompiles-shape" not in outcome(9, "train.py:95").title
