"""All hosts of a run in one timeline: lanes of each, on one clock.

A host's times begin at its own trace. On the one clock they are moved by when that was, and by how far the host's clock
reads ahead of the first host's, where collectives tell (`Hosts.clock_offset_ms`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tpuprof.report.schema import Report
from tpuprof.timeline.lanes import DEVICE, PERIODS, STEPS, Lane, LaneInfo
from tpuprof.timeline.level_of_detail import Bars, Pyramid
from tpuprof.units import NS_PER_MS, PS_PER_NS
from tpuprof_dashboard.reading import Details, HostDetails, Moved
from tpuprof_dashboard.timeline_view import BETWEEN_HOSTS

if TYPE_CHECKING:
    from tpuprof.timeline.event import Chosen

# What stands for all hosts where the address names one: no file of a host has this name.
ALL_HOSTS = "*"
# Hosts whose lanes are drawn by default (hosts): more rows than these fill no screen. Others can be chosen.
SHOWN_HOSTS = 8


@dataclass(frozen=True)
class Member:
    """One of the hosts, and by how much its times are moved (ps)."""

    host: HostDetails
    shift: int


class AllHosts(HostDetails):
    """The hosts of a run as one. It has no trace of its own: an event is looked up in that of its host."""

    def __init__(self, members: list[Member], moved: Moved) -> None:
        self.members = members
        self._moved = moved
        super().__init__(
            ALL_HOSTS,
            [self._lane(number, info) for number, each in enumerate(members) for info in each.host.lanes],
            min(each.host.start + each.shift for each in members),
            max(each.host.end + each.shift for each in members),
        )

    def usual_lanes(self) -> list[LaneInfo]:
        """Of the first hosts: steps, what bounds them, and the first queue of the first device."""
        found: list[LaneInfo] = []
        for number, member in enumerate(self.members[:SHOWN_HOSTS]):
            lanes = member.host.lanes
            chosen = [each for each in lanes if each.kind in (STEPS, PERIODS)]
            chosen += [each for each in lanes if each.kind == DEVICE][:1]
            found += [self._lane(number, each) for each in chosen]
        return found

    def shift_of(self, host: str) -> int | None:
        """By how much the times of a host are moved here (ps)."""
        return next((each.shift for each in self.members if each.host.name == host), None)

    def of_one_host(self, chosen: Chosen) -> tuple[HostDetails, Chosen]:
        """The event's host, and the event as it is there."""
        number, _, key = chosen.lane.key.partition(BETWEEN_HOSTS)
        member = self.members[int(number)]
        lane = next(each for each in member.host.lanes if each.key == key)
        return member.host, replace(chosen, lane=lane, start=chosen.start - member.shift)

    def _lane(self, number: int, info: LaneInfo) -> LaneInfo:
        known = self._moved.get((number, info.key))
        if known is not None and known[0] is info:
            return known[1]
        member = self.members[number]
        moved = LaneInfo(
            f"{number}{BETWEEN_HOSTS}{info.key}",
            f"{member.host.name}: {info.title}",
            info.kind,
            info.events,
            lambda: _moved_to(info.lane, member.shift),
        )
        self._moved[number, info.key] = info, moved
        return moved


def all_hosts(details: Details, report: Report) -> AllHosts | None:
    """The hosts of a run as one; None where there is one host alone, or no traces that say when they began."""
    if details.run is None or len(details.hosts) < 2:
        return None
    ahead = {row.host: row.clock_offset_ms or 0.0 for row in report.hosts.hosts}
    began = {
        each.name: each.origin_ns - round(ahead.get(each.name, 0.0) * NS_PER_MS) for each in details.run.hosts
    }
    first = min(began[name] for name in details.hosts)
    members = [Member(host, (began[name] - first) * PS_PER_NS) for name, host in details.hosts.items()]
    return AllHosts(members, details.moved)


def _moved_to(lane: Lane, shift: int) -> Lane:
    return replace(lane, rows=[_moved_row(row, shift) for row in lane.rows])


def _moved_row(row: Pyramid, shift: int) -> Pyramid:
    levels = [_moved_bars(each, shift) for each in row.levels]
    return Pyramid(levels, list(row.pixel), [each + shift for each in row.reach])


def _moved_bars(bars: Bars, shift: int) -> Bars:
    return replace(bars, start=bars.start + shift, end=bars.end + shift)
