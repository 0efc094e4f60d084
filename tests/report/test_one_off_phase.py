"""A captured step that is left out for what it compiled once: where that was, and what of it is in no step."""

from types import SimpleNamespace

import pytest

from tests.rules.given import record
from tpuprof.analysis.sections.host import _of_steps, phase_rows
from tpuprof.analysis.sections.runtime import fallback_rows
from tpuprof.model.notes import Notes
from tpuprof.model.steps.phase import ONE_OFF_COMPILE, Phase
from tpuprof.model.telemetry import counted
from tpuprof.report.between import OTHER_CALLS

EVALUATION = "__bool__ (/u/train.py:24)"


def host(name, *compiles, records=()):
    phase = Phase(name, 0, 100, 0, "3 compiles in this step", 10)
    rows = [SimpleNamespace(start_ps=at, duration_ps=took, frames=frames) for at, took, frames in compiles]
    return SimpleNamespace(
        name="vm", steps=SimpleNamespace(phases=[phase]), compiles=rows, records=list(records),
        compile_frames={10: ["step (/u/train.py:38)"]},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "compiles", "said"),
    [
        (
            ONE_OFF_COMPILE,
            [(10, 60, [EVALUATION]), (90, 40, [])],
            "; most of the compiling is at /u/train.py:24",
        ),
        # Notes of the step have the line of its graph cut.
        (
            ONE_OFF_COMPILE,
            [(10, 40, [EVALUATION]), (90, 60, [])],
            "; most of the compiling is at /u/train.py:38",
        ),
        # Behind the step.
        (ONE_OFF_COMPILE, [(100, 60, [EVALUATION])], ""),
        (OTHER_CALLS, [(10, 60, [EVALUATION])], ""),
    ],
)
def test_the_line_that_compiled_most_of_it_is_named(name, compiles, said):
    """39 graphs of `generate()` in an evaluation: "one-off compile, 84.4 s" named neither."""
    (row,) = phase_rows([host(name, *compiles)])
    assert row.evidence == f"3 compiles in this step{said}"


def test_ops_of_an_evaluation_that_is_left_out_fall_back_in_no_step():
    """`generate()` called `isin` 18 times in one of eight captured steps: "2.25 times per step"."""
    generates = record(step=10, **{"aten::isin": 18})
    steps = [record(step=each) for each in range(4, 10)]
    left_out = host(ONE_OFF_COMPILE, records=[*steps, generates])
    assert fallback_rows([counted(_of_steps(left_out))], Notes(), None) == []
    (row,) = fallback_rows([counted([*steps, generates])], Notes(), None)
    assert row.per_step == pytest.approx(18 / 7)
