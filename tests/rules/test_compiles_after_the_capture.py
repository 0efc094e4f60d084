"""Compiles after the captured steps: those of lines that compiled in them are a matter of the rule on their cause."""

from dataclasses import replace

import pytest

from tests.rules.given import compiled, given, steps
from tpuprof.model.compile.recurrence import AfterCapture, CompilingLine
from tpuprof.rules.shared.recompiles import check_afterwards

LINE, OTHER = "train (train.py:20)", "evaluate (train.py:7)"


def signals(*lines):
    rows = {line: CompilingLine(20, 20, 5.0, [line], [1]) for line in lines}
    after = AfterCapture(200, 20 * len(lines), 20 * len(lines), 5.0 * len(lines), 20.0, True, rows)
    compiles = [replace(compiled("shape", step=0), frames=[LINE])]
    return given(steps=steps(), step_compiles=compiles, after_capture=after, records_if_noted=[])


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((LINE,), ""),
        ((OTHER,), "20 of 200 steps compiled: 25 % of that time"),
        ((LINE, OTHER), "20 of 200 steps compiled: 25 % of that time"),
    ],
)
def test_only_lines_that_compiled_in_no_captured_step_count(lines, said):
    found = check_afterwards(signals(*lines))
    assert found is None if not said else said in found.title
