"""Reads one run for the dashboard: its Report, from the cache where it is kept, and what its timeline needs.

Each function says how far it is through `tell(share, what)`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from tpuprof.errors import Code, TpuprofError
from tpuprof_dashboard.pods import as_pod
from tpuprof_dashboard.security import inside

if TYPE_CHECKING:
    from tpuprof.decode.columns import Trace
    from tpuprof.decode.find import Found
    from tpuprof.model.host_run import HostRun
    from tpuprof.model.run import Run
    from tpuprof.model.timeline import Host
    from tpuprof.report.schema import Report
    from tpuprof.timeline.event import Chosen
    from tpuprof.timeline.lanes import LaneInfo
    from tpuprof.timeline.links import Links
    from tpuprof_dashboard.runs import Source

# Share of a load's time that goes into reading files, the rest into what is made of them: some three quarters of it
# was measured on a trace of three million events.
_READ = 0.75

Tell = Callable[[float, str], None]

# Lanes that were moved, by their host's number and their key, with what each was moved from: a note makes another lane.
Moved: TypeAlias = "dict[tuple[int, str], tuple[LaneInfo, LaneInfo]]"


@dataclass
class HostDetails:
    """One host: its lanes, `start` and `end` in ps from its origin, its lines and the analysis of them.

    Of a saved report there are no lines and no analysis: its lanes are what the report itself has.
    """

    name: str
    lanes: list[LaneInfo]
    start: int
    end: int
    host: Host | None = None
    run: HostRun | None = None
    _links: Links | None = None
    _lock: Lock = field(default_factory=Lock)

    def links(self) -> Links | None:
        """Which event hands work to which, found once; None of a saved report."""
        if self.host is None:
            return None
        with self._lock:
            if self._links is None:
                from tpuprof.timeline.links import Links

                self._links = Links(self.host)
            return self._links

    def usual_lanes(self) -> list[LaneInfo]:
        """The lanes drawn where none are chosen."""
        from tpuprof_dashboard.timeline_view import default_lanes

        return default_lanes(self.lanes)

    def shift_of(self, host: str) -> int | None:
        """By how much the times of a host are moved here (ps), None where it is not shown. Empty stands for any."""
        return 0 if host in ("", self.name) else None

    def of_one_host(self, chosen: Chosen) -> tuple[HostDetails, Chosen]:
        """The event's host, and the event as it is there."""
        return self, chosen


@dataclass
class Details:
    """All hosts of a run, by name; `run` is None of a saved report.

    `moved` are the lanes that were drawn for all hosts together (see `all_hosts`).
    """

    run: Run | None
    hosts: dict[str, HostDetails]
    moved: Moved = field(default_factory=dict)


def read_saved(source: Source) -> Report:
    """The Report of a saved report or a bundle. Raises `TpuprofError`."""
    from tpuprof.report.load import read_report

    return read_report(source.path)


def saved_details(report: Report) -> Details:
    """What a saved report itself has of a timeline."""
    from tpuprof_dashboard.report_lanes import report_extent, report_lanes

    lanes = report_lanes(report)
    return Details(None, {name: HostDetails(name, own, *report_extent(own)) for name, own in lanes.items()})


def found_of(source: Source) -> Found:
    """The files of a run. Raises `TpuprofError` where one leads out of what may be read."""
    from tpuprof.decode.find import find

    found = find(source.path)
    outside = [path for path in found.files.values() if not inside(path, [source.root])]
    if outside:
        raise TpuprofError(
            Code.UNREADABLE,
            f"{outside[0]}: leads out of {source.root}, which is all this dashboard may read.",
            "Give the path it leads to.",
        )
    return found


def report_of(found: Found, tell: Tell) -> tuple[Report, Run | None]:
    """The Report, and what was read for it where it had not been kept from an earlier analysis."""
    import json

    from tpuprof.analysis import cache
    from tpuprof.report.load import report_from

    pod = as_pod(found, lambda share, what: tell(_READ * share, what))
    if pod is not None:
        return pod, None
    try:
        entry = cache.key(found)
    except OSError:  # whatever cannot be read is shown by the analysis
        entry = ""
    kept = cache.read(entry) if entry else None
    if kept is not None:
        return report_from(json.loads(kept)), None
    from tpuprof.analysis.analyze import report_of as analyzed
    from tpuprof.report.as_json import to_json

    run = read_run(found, tell)
    tell(_READ, "analyzing")
    report = analyzed(run)
    if entry:
        cache.write(entry, to_json(report))
    return report, run


def read_run(found: Found, tell: Tell) -> Run:
    """Read all hosts, telling which one it is at."""
    from tpuprof.decode.load import load
    from tpuprof.model.run import build_run
    from tpuprof.units import format_bytes

    paths = list(found.files.values())

    def read(path: Path) -> Trace:
        at = paths.index(path)
        size = path.stat().st_size if os.path.exists(path) else 0
        tell(_READ * at / len(paths), f"host {at + 1} of {len(paths)}, {format_bytes(size)}")
        return load(path)

    return build_run(found, read=read)


def details_of(run: Run, tell: Tell) -> Details:
    """What timelines need of a run that was read."""
    tell(_READ, "laying out the timeline")
    return Details(run, {each.name: _host_details(run, each) for each in run.hosts})


def _host_details(run: Run, host_run: HostRun) -> HostDetails:
    from tpuprof.decode.load import load
    from tpuprof.model.timeline import build_host
    from tpuprof.timeline.lanes import extent, lanes_of
    from tpuprof_dashboard.report_lanes import with_notes
    from tpuprof_dashboard.timeline_view import default_lanes

    host = build_host(load(run.files[host_run.name]), host_run.name)
    lanes = lanes_of(host, host_run)
    for each in default_lanes(lanes):
        _ = each.lane
    return HostDetails(
        host_run.name, with_notes(lanes, run.span_notes, host.name), *extent(host), host, host_run
    )
