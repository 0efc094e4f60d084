"""What compiles between recordings by the clock: preparation, or what the program does all along."""

from types import SimpleNamespace

import pytest

from tests.capture.test_compiles_under_way import Extension
from tpuprof.capture.recordings import Recorded, Recordings
from tpuprof.capture.telemetry import Telemetry


@pytest.mark.parametrize(("compiles", "repeats"), [(2, [False, True, True]), (0, [False, False, False])])
def test_where_the_recording_that_counts_compiles_only_what_came_before_all_is_preparation(compiles, repeats):
    telemetry = Telemetry(Extension())
    for number in range(3):
        telemetry.end_preparation(number, 0)
    telemetry.end_step(0, 3, 1, captured=True)
    recordings = Recordings(None, None, telemetry, lambda _: None)
    recording = SimpleNamespace()
    recordings._all.append(Recorded(recording, 3, 4, compiles=compiles))
    recordings.keep(recording)
    assert [each.repeats for each in telemetry.records] == [*repeats, False]
    assert [each.to_dict()["repeats"] for each in telemetry.records] == [*repeats, False]
