"""On which hosts an op runs, for runs of several hosts: an op's row is of all of them together."""

from __future__ import annotations

from tpuprof.report.schema import OpRow, Report

# Hosts that are named; of more their number is shown (hosts).
_NAMED = 2
# How the device of one of several hosts is called: `/device:TPU:0 of HOST`.
_OF = " of "


def has_several_hosts(report: Report) -> bool:
    """Whether tables of ops have a column for hosts: not where the ops are those of one host, shown for all."""
    many = int(report.environment.get("host_count") or 1) > 1
    return many and any(op.hosts is not None or ms_by_host(op) for op in report.ops)


def ms_by_host(op: OpRow) -> dict[str, float]:
    """Time of an op on the devices of each host that runs it (ms over the capture), the most first."""
    found: dict[str, float] = {}
    for core in op.cores:
        _, of, host = core.device.partition(_OF)
        if of:
            found[host] = found.get(host, 0.0) + core.total_ms
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def hosts_of(op: OpRow, report: Report) -> str:
    """`all`, the names of one or two hosts, or how many of them; empty where the report does not say."""
    names = op.host_names or sorted(ms_by_host(op))
    found = len(names) if op.hosts is None else op.hosts
    count = int(report.environment.get("host_count") or 1)
    if not found:
        return ""
    if found >= count:
        return "all"
    return ", ".join(names) if found <= _NAMED else f"{found} of {count}"
