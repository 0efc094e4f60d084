"""Queries give the numbers of XProf's trace viewer, event by event, wherever both have an event."""

from pathlib import Path

import pytest

import tpuprof

pytest.importorskip("xprof")
pytest.importorskip("duckdb")

# Events of host threads, of the device's queues, and runs of programs, under XProf's names for where they lie.
SQL = """
    SELECT '/host:CPU', thread, event, count(*), sum(duration_ps) / 1e6 FROM host_events
    WHERE duration_ps > 0 GROUP BY ALL
    UNION ALL
    SELECT device, CASE line WHEN 'core' THEN 'XLA Ops' ELSE 'Async XLA Ops' END, op, count(*), sum(duration_ps) / 1e6
    FROM op_events WHERE duration_ps > 0 AND device LIKE '/device%' GROUP BY ALL
    UNION ALL
    SELECT device, 'XLA Modules', program, count(*), sum(duration_ps) / 1e6 FROM programs
    WHERE device LIKE '/device%' GROUP BY ALL
"""


def compare(path, least):
    """Fail where a number differs; `least` is how many different events both must have."""
    from tests import xprof_numbers

    theirs = xprof_numbers.events(path)
    ours = {tuple(row[:3]): row[3:] for row in tpuprof.open(path).query(SQL, most=100_000).rows}
    both = [place for place in theirs if place in ours and theirs[place][0]]
    assert len(both) >= least
    assert {place: theirs[place][0] for place in both} == {place: ours[place][0] for place in both}
    for place in both:
        assert ours[place][1] == pytest.approx(theirs[place][1], rel=1e-9, abs=1e-3), place


def test_events_of_a_cpu_run(samples):
    compare(next(Path(samples / "device_to_host_sync").rglob("*.xplane.pb")), 1_500)


@pytest.mark.shared_traces
def test_events_of_a_real_tpu_run(shared_traces):
    compare(shared_traces / "tpu_v6e_host_offload" / "host0.xplane.pb", 1_000)
