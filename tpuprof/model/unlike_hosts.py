"""Hosts of one run that differ so much that a mean over them describes none of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tpuprof.model.device.main_program import main_program
from tpuprof.model.device.recorded_devices import not_equally_busy
from tpuprof.model.host_run import HostRun
from tpuprof.units import counted, listed

# Hosts named one by one (hosts).
NAMED = 4


def unlike_hosts(hosts: Sequence[HostRun], programs: Mapping[str, str] | None = None) -> list[str]:
    """Sentences on hosts whose devices run another program, or are busy for another share of the steps.

    `programs` says which program each host runs, where the devices' events are not here.
    """
    seen = [host for host in hosts if host.devices and int(host.steps.wall_ps.sum())]
    return [*_programs(seen, programs), *_busy(seen)] if len(seen) > 1 else []


def _programs(hosts: Sequence[HostRun], known: Mapping[str, str] | None) -> list[str]:
    of: dict[str, list[str]] = {}
    for host in hosts:
        program = known[host.name] if known is not None else main_program(host.devices)
        of.setdefault(program, []).append(host.name)
    of.pop("", None)
    if len(of) < 2:
        return []
    groups = sorted(of.items(), key=lambda each: -len(each[1]))
    said = "; ".join(f"{name} on {_named(names)}" for name, names in groups[:NAMED])
    more = f"; and {counted(len(of) - NAMED, 'more program')}" if len(of) > NAMED else ""
    return [f"hosts run different programs: {said}{more}. Figures are the mean of all hosts"]


def _busy(hosts: Sequence[HostRun]) -> list[str]:
    shares = {host.name: int(host.breakdown.busy.sum()) / int(host.steps.wall_ps.sum()) for host in hosts}
    return not_equally_busy(shares, "those of ", "the mean of all hosts")


def _named(names: Sequence[str]) -> str:
    return listed(names, NAMED)
