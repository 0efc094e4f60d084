"""How long steps are taken to be, as a recording begins to sample them."""

import pytest

from tpuprof.capture.recordings import RECENT_STEPS, usual_seconds
from tpuprof.capture.telemetry import StepRecord

MS = 1_000_000


@pytest.mark.parametrize(
    ("walls_ms", "seconds"),
    [
        ([], None),
        ([5, 5, 6], 0.005),
        # The program has just been compiled: of four steps before the capture two did so.
        ([900, 700, 7, 5], 0.005),
        # One that is long gone tells nothing of the steps now.
        ([1, *[40] * RECENT_STEPS], 0.040),
    ],
)
def test_steps_are_as_long_as_the_shortest_of_the_last_ones(walls_ms, seconds):
    records = [StepRecord(step, 0, wall * MS, False, {}, {}) for step, wall in enumerate(walls_ms)]
    assert usual_seconds(records) == seconds
