"""Hosts side by side."""

from __future__ import annotations

import numpy as np

from tpuprof.model.barriers import NO_BARRIERS, NO_MEETINGS, Barriers, chip_meetings, find_barriers
from tpuprof.model.device.chip_waits import ChipWait, chip_waits, last_chip
from tpuprof.model.device.main_program import main_program
from tpuprof.model.host_run import HostRun
from tpuprof.model.hosts import BARRIER, HostView, LateStep, Skew, find_skew
from tpuprof.report.sections import ChipWaitRow, HostRow, Hosts, LateStepRow
from tpuprof.units import NS_PER_MS, PS_PER_MS, listed, ps_to_ms

_ALONE = "one host: nothing to align"
_BY_BARRIER = (
    "host clocks are compared where all devices leave the same collective; lateness is read from the time waited "
    "there and needs no common clock"
)
_BY_WALL = (
    "clocks are taken as recorded (hosts kept by NTP differ by up to a few ms): no collective ties them, so "
    "lateness is read from each host's own step times"
)


# Hosts named one by one where several are of a kind (hosts).
NAMED = 8
# Of more hosts than this a late step does not say what each of them waited (hosts): a report of 1,024 hosts and 1,000
# steps would have a million such figures. The pod section has them, brought together.
WAITS_LISTED_UP_TO = 32


def hosts_section(
    hosts: list[HostRun], barriers: list[Barriers] | None = None, programs: list[str] | None = None
) -> Hosts:
    """Each host's own values, and who was late in each step.

    `barriers` and `programs` are each host's, where they are known already.
    """
    if programs is None:
        programs = [main_program(host.devices) if len(hosts) > 1 else "" for host in hosts]
    if barriers is None:
        several = len(hosts) > 1
        barriers = [find_barriers(host.devices, host.steps) if several else NO_BARRIERS for host in hosts]
    skew = find_skew(
        [
            HostView(host.name, host.origin_ns, host.steps, each, program)
            for host, each, program in zip(hosts, barriers, programs, strict=True)
        ]
    )
    rows = [_host_row(host, skew) for host in hosts]
    waits = [row for host in hosts for row in _chip_rows(host)]
    if skew is None:
        clocks = (
            _ALONE if len(hosts) == 1 else "hosts have no step in common, or each runs a program of its own"
        )
        return Hosts(hosts=rows, clocks=clocks, chip_waits=waits)
    return Hosts(
        hosts=rows,
        method=skew.method,
        clocks=_clocks(skew),
        straggler=skew.straggler,
        lag_ms_per_step=ps_to_ms(skew.lag_ps) / len(skew.steps),
        late_steps=[_late_step_row(each, with_waits=len(hosts) <= WAITS_LISTED_UP_TO) for each in skew.steps],
        chip_waits=waits,
    )


def _clocks(skew: Skew) -> str:
    """How the hosts' clocks were compared, and which hosts were not."""
    text = _BY_BARRIER if skew.method == BARRIER else _BY_WALL
    for why, left_out in (("have other steps", skew.left_out), ("run another program", skew.other_program)):
        if left_out:
            text += f"; not compared, because they {why}: {listed(left_out, NAMED)}"
    return text


def _late_step_row(late: LateStep, *, with_waits: bool) -> LateStepRow:
    waited = late.waited_ps
    return LateStepRow(
        step=late.number,
        host=late.host,
        lag_ms=ps_to_ms(late.lag_ps),
        barrier=late.barrier,
        waited_ms={name: ps_to_ms(ps) for name, ps in waited.items()} if with_waits else {},
        mean_waited_ms=ps_to_ms(sum(waited.values())) / len(waited) if waited else None,
    )


def _chip_rows(host: HostRun) -> list[ChipWaitRow]:
    """The waits of each device that has any barrier, or meets others at collectives."""
    barriers = {each.device: each for each in chip_waits(host.devices, host.steps)}
    last = last_chip(list(barriers.values()))
    met = chip_meetings(host.devices, host.steps) or [NO_MEETINGS] * len(host.devices)
    rows = []
    for device, meetings in zip(host.devices, met, strict=True):
        each = barriers.get(device.name, ChipWait(device.name, 0, 0, 0))
        row = ChipWaitRow(
            host=host.name,
            device=each.device,
            barriers=each.barriers,
            waited_ms=ps_to_ms(each.waited_ps),
            waited_ms_in_steps=ps_to_ms(each.in_steps_ps),
            late_ms=ps_to_ms(last[1]) if last is not None and each is last[0] else 0.0,
            collectives=meetings.met,
            waited_ms_in_collectives=ps_to_ms(meetings.waited_ps),
            first_ms_in_collectives=ps_to_ms(meetings.first_ps),
        )
        rows += [row] if row.barriers or row.collectives else []
    return rows


def _host_row(host: HostRun, skew: Skew | None) -> HostRow:
    steps, wall = len(host.steps), int(host.steps.wall_ps.sum())
    offset = skew.clock_ns.get(host.name) if skew is not None else None
    return HostRow(
        host=host.name,
        steps=steps,
        median_ms=float(np.median(host.steps.wall_ps)) / PS_PER_MS if steps else None,
        device_busy_share=int(host.breakdown.busy.sum()) / wall if wall and host.devices else None,
        tracing_ms_per_step=int(host.breakdown.parts["tracing"].sum()) / steps / PS_PER_MS
        if steps and "tracing" in host.breakdown.parts
        else None,
        clock_offset_ms=offset / NS_PER_MS if offset is not None else None,
    )
