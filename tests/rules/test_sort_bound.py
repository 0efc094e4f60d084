"""What is said of sorts: random permutations, which few draws need, and others, whose order may be needed."""

import pytest

from tests.builders import TraceBuilder, op
from tests.rules.given import computed, given
from tests.rules.given import op as op_row
from tpuprof.analysis.analyze import analyze_run
from tpuprof.report.op_rows import OpRows
from tpuprof.rules.compute.sort_bound.rule import SAVED_AT_LEAST
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import outcome_of

STEPS, LENGTH = 6, 1000


@pytest.fixture
def finding(tmp_path):
    """The rule's finding on steps of 1 ms of JAX, of which ops take so long (µs), each with its scope."""

    def of(*ops):
        trace = TraceBuilder()
        for step in range(STEPS):
            begin = step * LENGTH
            trace.host().line("python").event("train", begin, LENGTH, _r=1, step_num=step)
            trace.host().line("python").event("PjitFunction(step)", begin + 1, 8)
            trace.tpu(0).line("XLA Modules").event("jit_step(1)", begin, LENGTH)
            at = begin
            for words, took in (*ops, (op("fusion.1"), LENGTH - sum(took for _, took in ops))):
                trace.tpu(0).line("XLA Ops").event(**words, start=at, duration=took)
                at += took
        report = analyze_run(trace.write(tmp_path / "host.xplane.pb"))
        return next(each for each in report.findings if each.rule == "sort-bound")

    return of


def row(name, ms):
    return op_row(name, ms, self_ms_per_step=ms)


def made(name, scope, opcode="sort"):
    words = op(name, opcode)
    words["facts"] |= {"tf_op": scope, "source": "train.py:64"}
    return words


def test_a_random_permutation_may_be_needed_whole(finding):
    """An agent's minibatches are a permutation of all of its rollout."""
    found = finding(
        (made("sort.0", "jit(step)/jit(_shuffle)/sort:"), 200),
        (made("sort.2", "jit(step)/jit(_shuffle)/sort:"), 200),
    )
    assert found.title == "Random permutations take 40 % of the device's time"
    assert (found.confidence, found.savings.low) == ("low", 0.0)
    assert found.savings.high == pytest.approx(0.4)
    assert "replace=False" in found.fix.text and "top_k" not in found.fix.text


@pytest.mark.parametrize(
    ("part_ms", "title", "confidence", "least"),
    [
        (
            20.0,
            "Sorts, of whose result the program uses a part, take 40 % of the device's time",
            "medium",
            0.1,
        ),
        (19.9, "Sorts take 40 % of the device's time", "low", 0.0),
    ],
)
def test_of_a_sort_that_is_used_in_part_half_is_saved_at_least(part_ms, title, confidence, least):
    """The pixels of an image were shuffled for a few rays: half of the step, and no rule failed."""
    rows = [row("sort.0", ms=part_ms), row("sort.2", ms=40 - part_ms), row("dot.1", ms=60.0)]
    signals = given(**computed(*rows), part_sorts=OpRows.of(rows[:1]))
    found = outcome_of(find_rule("sort-bound"), signals)
    assert (found.title, found.confidence) == (title, confidence)
    changes = [change.device["compute"] for change in (found.price.most, found.price.least)]
    assert changes == pytest.approx([0.6, 1 - least])
    assert SAVED_AT_LEAST == 0.5


@pytest.mark.parametrize(
    ("name", "scope", "opcode"),
    [
        ("sort.2", "jit(step)/argsort/sort:", "sort"),
        ("custom-call.1", "jit(step)/top_k:", "custom-call"),
        ("custom-call.1", "aten__topk", "custom-call"),
    ],
)
def test_another_sort_may_be_needed(finding, name, scope, opcode):
    found = finding((made(name, scope, opcode), 400))
    assert (found.title, found.confidence) == ("Sorts take 40 % of the device's time", "low")
    assert found.savings.low == 0
    assert "top_k" in found.fix.text and "replace=False" not in found.fix.text


def test_a_permutation_that_is_the_smaller_part_does_not_stand_for_all(finding):
    found = finding((made("sort.0", "jit(step)/jit(_shuffle)/sort:"), 190), (made("sort.2", "sort"), 210))
    assert found.title == "Sorts take 40 % of the device's time"


def test_work_in_a_scope_named_after_a_sort_is_no_sort(finding):
    found = finding((made("fusion.7", "jit(step)/jit(argsort)/select_n:", "fusion"), 400))
    assert found.status == "passed"
