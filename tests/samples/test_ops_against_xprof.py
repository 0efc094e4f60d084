"""Each op's total time and occurrences on each TPU core are those of XProf's HLO statistics."""

import pytest

from tests import xprof_numbers
from tpuprof.analysis.analyze import analyze_run
from tpuprof.decode import xplane_pb2

TOLERANCE = 0.001
# XProf prints times in us to a limited number of digits: ops shorter than this in all are not compared by time (ms).
SHORTEST = 0.01


@pytest.mark.shared_traces
@pytest.mark.parametrize("core", range(4))
def test_v6e(shared_traces, tmp_path, core):
    """XProf sums over cores, so each core's plane is given to it alone."""
    pytest.importorskip("xprof")
    source = shared_traces / "tpu_v6e_host_offload" / "host0.xplane.pb"
    device = f"/device:TPU:{core}"
    space = xplane_pb2.XSpace.FromString(source.read_bytes())
    kept = [plane for plane in space.planes if plane.name.decode() in (device, "/host:metadata", "/host:CPU")]
    alone = tmp_path / "host0.xplane.pb"
    alone.write_bytes(xplane_pb2.XSpace(planes=kept).SerializeToString())
    theirs = xprof_numbers.op_totals(alone)
    ours = {}
    for row in analyze_run(source).ops:
        program = row.program.rpartition("(")[2].rstrip(")")
        found = [each for each in row.cores if each.device == device]
        if found:
            ours[program, row.name] = (found[0].occurrences, found[0].clock_ms)
    assert set(theirs) == set(ours)
    for op, (count, ms) in theirs.items():
        assert ours[op][0] == count, op
        if ms >= SHORTEST:
            assert ours[op][1] == pytest.approx(ms, rel=TOLERANCE), op


@pytest.mark.shared_traces
def test_the_timeline_of_the_first_core(shared_traces):
    """Totals as PROVENANCE.md states them, straight from the events of TPU:0 (ms)."""
    stated = {"copy-done.2": 22_029, "copy-done": 18_908, "copy-done.5": 17_637, "copy-done.4": 17_475}
    rows = {row.name: row for row in analyze_run(shared_traces / "tpu_v6e_host_offload").ops}
    for name, ms in stated.items():
        (first,) = [each for each in rows[name].cores if each.device == "/device:TPU:0"]
        assert first.total_ms == pytest.approx(ms, rel=0.0005)
