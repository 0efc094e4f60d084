"""`eager-graph-cuts` also prices what samples find in calls that cut and no event holds."""

import pytest

from tests.rules.given import given
from tests.rules.situations import cut
from tpuprof.parts import TRACING
from tpuprof.report.sections import GraphCutRow, HostStackRow
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of
from tpuprof.rules.tracing.eager_graph_cuts.rule import MOST_OF

GRAPHS = 4
CUT, OTHER = "torch_xla._XLAC._xla_step_marker(", "loss.backward()"


def stack(call, exposed, hidden=0.0):
    return HostStackRow(
        TRACING, ["step (/home/u/train.py:9)"], call, "/home/u/train.py:9", "sync()", exposed, hidden
    )


@pytest.mark.parametrize(
    ("rows", "around", "share"),
    [
        # Events hold 20 ms of 70 ms of tracing, samples find 30 ms in the calls.
        ([stack(CUT, 26.0, 4.0), stack(OTHER, 40.0)], 10.0, 0.2),
        # Samples that find less than the events say nothing.
        ([stack(CUT, 19.0), stack(OTHER, 40.0)], 0.0, 0.0),
        ([stack(OTHER, 70.0)], 0.0, 0.0),
        ([], 0.0, 0.0),
    ],
)
def test_what_samples_find_in_calls_is_at_stake_and_goes_with_them(rows, around, share):
    left = 1 - 1 / GRAPHS
    bare = outcome_of(find_rule("eager-graph-cuts"), given(**cut(GRAPHS, 20.0)))
    found = outcome_of(find_rule("eager-graph-cuts"), given(**cut(GRAPHS, 20.0), stacks_if_sampled=rows))
    assert found.status == bare.status == "failed"
    assert found.share - bare.share == pytest.approx(around * left / 100)
    assert found.price.most.host[TRACING] == pytest.approx(1 - share * left)
    assert found.price.least.host[TRACING] == 1.0


@pytest.mark.parametrize(("share", "named"), [(MOST_OF * 0.99, False), (MOST_OF * 1.01, True)])
def test_the_line_that_cuts_most_is_named(share, named):
    rows = [
        GraphCutRow("sync", "/home/u/train.py:9", share * GRAPHS),
        GraphCutRow("item", "/home/u/train.py:3", 1.0),
    ]
    found = outcome_of(find_rule("eager-graph-cuts"), given(**{**cut(GRAPHS, 20.0), "cutting_lines": rows}))
    assert (found.title == "A step is cut into 4 graphs, most of them by sync at /home/u/train.py:9") is named
    assert {row.source for row in rows} <= {each.source for each in found.evidence}
