"""What a capture says of a profile without device activity."""

import pytest

from tests.builders import TraceBuilder
from tpuprof.capture.validate import validate
from tpuprof.run_folder import PROFILES


@pytest.mark.parametrize(("cuts", "advice"), [(0, "No graph ran"), (5, "no other process profiles it")])
def test_a_profile_without_a_device_names_what_to_look_at(tmp_path, cuts, advice):
    trace = TraceBuilder()
    python = trace.host().line("python")
    for begin in range(0, 6000, 1000):
        python.event("PjRtComputationClient::TransferToDevice", begin + 10, 5)
        python.event("tpuprof.optimizer_step", begin + 500, 1, optimizer=0)
        if begin < cuts * 1000:
            python.event("StepMarker", begin + 600, 100)
            python.event("RunPostOrder", begin + 610, 10)
            python.event("ScheduleSyncTensorsGraph", begin + 630, 20)
    folder = tmp_path / PROFILES / "first"
    folder.mkdir(parents=True)
    trace.write(folder / "host.xplane.pb")
    said = validate(tmp_path, "first", {"host"})
    found = [each.error for each in said if each.error.code == "capture-no-device-activity"]
    assert [advice in str(each) for each in found] == [True]
