"""`tracing-bound` has the lines that trace as evidence, so that reports by line show it."""

from dataclasses import replace

from tests.rules.given import given
from tests.rules.test_each_rule import CASES
from tpuprof.parts import INPUT_WAIT, TRACING
from tpuprof.report.sections import HostStackRow
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of


def row(part, line, exposed, hidden=0.0):
    source = f"/home/u/train.py:{line}"
    return HostStackRow(part, [f"step ({source})"], "f()", source, "f()", exposed, hidden)


def test_lines_that_trace_while_the_device_idles_are_evidence():
    rows = [row(TRACING, 7, 5.0), row(TRACING, 9, 8.0), row(TRACING, 11, 0.0, 9.0), row(INPUT_WAIT, 3, 20.0)]
    situation = next(given_ for _, status, given_ in CASES["tracing-bound"] if status == "failed")
    found = outcome_of(find_rule("tracing-bound"), given(**{**situation, "stacks_if_sampled": rows}))
    lines = [(each.source, each.value) for each in found.evidence if each.source]
    assert lines == [("/home/u/train.py:9", 8.0), ("/home/u/train.py:7", 5.0)]


def test_a_graph_cut_is_named_behind_lines_that_can_be_written_otherwise():
    cut = row(TRACING, 12, 9.0)
    cut.frames.append("sync (/env/site-packages/torch_xla/torch_xla.py:87)")
    situation = next(given_ for _, status, given_ in CASES["tracing-bound"] if status == "failed")
    found = outcome_of(
        find_rule("tracing-bound"), given(**{**situation, "stacks_if_sampled": [cut, row(TRACING, 7, 5.0)]})
    )
    assert [each.source for each in found.evidence if each.source] == [
        "/home/u/train.py:7",
        "/home/u/train.py:12",
    ]


def test_a_function_that_the_verdict_names_stands_before_the_lines():
    """Of an agent that plays, the verdict named `collect`, and the finding the line of the optimizer."""
    loop = "<module> (/home/u/train.py:90)"
    plays = [row(TRACING, line, 2.5) for line in (20, 21, 22, 23)]
    rows = [
        *(replace(each, frames=[loop, each.frames[0].replace("step", "collect")]) for each in plays),
        replace(row(TRACING, 38, 4.0), frames=["<module> (/home/u/train.py:38)"]),
    ]
    situation = next(given_ for _, status, given_ in CASES["tracing-bound"] if status == "failed")
    found = outcome_of(find_rule("tracing-bound"), given(**{**situation, "stacks_if_sampled": rows}))
    first, second, *_ = [each for each in found.evidence if each.source]
    assert (first.text, first.value, first.source) == (
        "tracing in collect that leaves the device idle",
        10.0,
        "/home/u/train.py:20",
    )
    assert second.source == "/home/u/train.py:38"
