"""Copies of inputs have a price where they are long; short ones do not take the finding on memory with them."""

from dataclasses import replace

import pytest

from tests.rules.given import given, steps, undonated
from tpuprof.rules.registry import find_rule
from tpuprof.rules.runner import run_rules


@pytest.mark.parametrize(("copied_ms", "priced"), [(0.0, False), (0.001, False), (9.9, False), (10.1, True)])
def test_a_finding_on_memory_stays_whatever_its_copies_take(copied_ms, priced):
    facts = undonated(250, copied_ms=copied_ms)
    (found,) = run_rules(given(steps=steps(10, compute=100.0), **facts), [find_rule("lost-donation")])
    assert found.status == "failed"
    assert (found.reason == "") is priced or "only memory" not in found.reason
    assert ("copies whole inputs" in found.title) is priced
    if not priced:
        assert found.savings is None and "only memory is known to be at stake" in found.reason


@pytest.mark.parametrize(
    ("program", "title"),
    [
        (
            "jit_update(7)",
            "Results of jit_update take 250 B beside the inputs they replace, 25 % of its memory",
        ),
        ("", "Results take 250 B beside the inputs they replace, 25 % of the program's memory"),
    ],
)
def test_a_finding_on_memory_names_its_program(program, title):
    facts = undonated(250)
    facts["memory"] = replace(facts["memory"], program=program)
    (found,) = run_rules(given(steps=steps(10, compute=100.0), **facts), [find_rule("lost-donation")])
    assert found.title == title
