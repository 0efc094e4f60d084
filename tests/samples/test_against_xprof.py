"""Where XProf states a step's time, ours is the same."""

from pathlib import Path

import pytest

from tests import xprof_numbers
from tpuprof.analysis.analyze import analyze_run

SAMPLES = sorted(
    path.parent.parent.parent.parent
    for path in Path(__file__).parents[2].glob("sample_traces/[!p]*/plugins/profile/*/*.xplane.pb")
)
# XProf 2.24 ends a step at its marker's end, tpuprof where the next begins: a few microseconds lie between.
TOLERANCE = 0.01


ANOTHER = pytest.mark.slow("XProf reads another sample, in a process of its own")


@pytest.mark.parametrize(
    "folder",
    [SAMPLES[0], *(pytest.param(each, marks=ANOTHER) for each in SAMPLES[1:])],
    ids=lambda path: path.name,
)
def test_step_times(folder):
    pytest.importorskip("xprof")
    theirs = xprof_numbers.step_times(next(folder.rglob("*.xplane.pb")))
    ours = {step.index: step.wall_ms for step in analyze_run(folder).steps.per_step}
    # XProf leaves out the first and last step of more than five.
    assert len(theirs) >= len(ours) - 2
    for number, ms in theirs.items():
        assert ours[number] == pytest.approx(ms, rel=TOLERANCE), number
