"""A captured step that is left out for what it compiled once: where that was, and what of it is in no step."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.rules.given import record
from tpuprof.analysis.sections.host import _of_steps, phase_rows
from tpuprof.analysis.sections.runtime import fallback_rows
from tpuprof.model.notes import Notes
from tpuprof.model.steps.phase import ONE_OFF_COMPILE, Phase
from tpuprof.model.telemetry import counted
from tpuprof.report.between import OTHER_CALLS
from tpuprof.report.schema import Cause, CompileRow
from tpuprof.units import NS_PER_MS, PS_PER_MS

EVALUATION, STEP = "__bool__ (/u/train.py:24)", "step (/u/train.py:38)"


def host(name, records=()):
    phase = Phase(name, 0, 100 * PS_PER_MS, 0, "3 compiles in this step", 10)
    return SimpleNamespace(name="vm", steps=SimpleNamespace(phases=[phase]), records=list(records))


def compiles(*rows):
    """Compiles from a time on, for so long (ms), in a frame."""
    row = CompileRow(None, "vm", "", "", 0, 0.0, Cause("graph", ""))
    return [
        replace(row, start_ns=at * NS_PER_MS, duration_ms=took, frames=frames) for at, took, frames in rows
    ]


@pytest.mark.parametrize(
    ("name", "rows", "said"),
    [
        (
            ONE_OFF_COMPILE,
            [(10, 60, [EVALUATION]), (90, 40, [])],
            "; most of the compiling is at /u/train.py:24",
        ),
        (
            ONE_OFF_COMPILE,
            [(10, 40, [EVALUATION]), (90, 60, [STEP])],
            "; most of the compiling is at /u/train.py:38",
        ),
        # Behind the step.
        (ONE_OFF_COMPILE, [(100, 60, [EVALUATION])], ""),
        (OTHER_CALLS, [(10, 60, [EVALUATION])], ""),
    ],
)
def test_the_line_that_compiled_most_of_it_is_named(name, rows, said):
    """39 graphs of `generate()` in an evaluation: "one-off compile, 84.4 s" named neither."""
    (row,) = phase_rows([host(name)], compiles(*rows))
    assert row.evidence == f"3 compiles in this step{said}"


def test_ops_of_an_evaluation_that_is_left_out_fall_back_in_no_step():
    """`generate()` called `isin` 18 times in one of eight captured steps: "2.25 times per step"."""
    generates = record(step=10, **{"aten::isin": 18})
    steps = [record(step=each) for each in range(4, 10)]
    left_out = host(ONE_OFF_COMPILE, records=[*steps, generates])
    assert fallback_rows([counted(_of_steps(left_out))], Notes(), None) == []
    (row,) = fallback_rows([counted([*steps, generates])], Notes(), None)
    assert row.per_step == pytest.approx(18 / 7)
