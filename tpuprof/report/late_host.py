"""Hosts that come last to collectives by turns, from who was late in each step."""

from __future__ import annotations

from tpuprof.report.sections import Hosts


def waited_by_turns(hosts: Hosts) -> float:
    """What hosts wait at collectives, the mean of them over all steps (ms); 0 where it is for one host alone."""
    late = {row.host for row in hosts.late_steps if row.lag_ms}
    if hosts.straggler or len(late) < 2:
        return 0.0
    return sum(row.mean_waited_ms or 0.0 for row in hosts.late_steps)
