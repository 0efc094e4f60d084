"""Reads runs in the background and keeps the last few: Reports, and what timelines need of them.

A page asks for a run and is told whether it is ready, loading or failed; nobody waits for another's load.
Memory is bounded by the number of Reports and of timelines kept, least recently used first to go.
"""

from __future__ import annotations

import tempfile
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuprof.errors import Code, TpuprofError
from tpuprof_dashboard.runs import Source, signature, sources
from tpuprof_dashboard.security import check_upload, inside

if TYPE_CHECKING:
    from tpuprof.model.lanes import LaneInfo
    from tpuprof.model.run import HostRun, Run
    from tpuprof.model.timeline import Host
    from tpuprof.report.schema import Report

# Reports kept (runs): a large one is some 20 MB.
MAX_REPORTS = 16
# Timelines kept, and as many runs whose timeline may be asked for next (runs): one of three million events takes
# some 700 MB as a timeline, 300 MB as a run.
MAX_DETAILS = 2
# Loads at a time: a small run need not wait for a large one.
_LOADERS = 2


@dataclass(frozen=True)
class Failure:
    """Why a run could not be read, in one line."""

    message: str


class Loading:
    """Says that a run is being read."""


@dataclass
class HostDetails:
    """One host: its lines, the analysis of them, and its lanes; `start` and `end` in ps from its origin."""

    host: Host
    run: HostRun
    lanes: list[LaneInfo]
    start: int
    end: int


@dataclass
class Details:
    """All hosts of a run, by name."""

    run: Run
    hosts: dict[str, HostDetails]


@dataclass
class _Cache:
    """Values by run and signature; the least recently used leave first."""

    most: int
    values: OrderedDict[str, tuple[Any, Any]] = field(default_factory=OrderedDict)

    def get(self, name: str, mark: Any) -> Any:
        held = self.values.get(name)
        if held is None or held[0] != mark:
            return None
        self.values.move_to_end(name)
        return held[1]

    def put(self, name: str, mark: Any, value: Any) -> None:
        self.values[name] = (mark, value)
        self.values.move_to_end(name)
        while len(self.values) > self.most:
            self.values.popitem(last=False)


class Store:
    """The runs below the given paths, and those uploaded. Safe to use from several threads."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._given = list(paths)
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_LOADERS, "tpuprof-load")
        self._reports, self._details = _Cache(MAX_REPORTS), _Cache(MAX_DETAILS)
        # Runs that were read for their Report and whose timeline was not asked for yet.
        self._runs = _Cache(MAX_DETAILS)
        self._running: dict[tuple[str, str], Future[None]] = {}
        self._failures: dict[tuple[str, str], tuple[Any, Failure]] = {}
        self._uploads: dict[str, Source] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._sources: dict[str, Source] = {}
        self.rescan()

    @property
    def watching(self) -> bool:
        """Whether a folder was given, in which runs may appear."""
        return any(path.is_dir() for path in self._given)

    def rescan(self) -> list[str]:
        """Look for runs again; returns the names of all there are now."""
        found = {each.name: each for each in sources(self._given)}
        with self._lock:
            self._sources = {**found, **self._uploads}
            return list(self._sources)

    def names(self) -> list[str]:
        """Names of the runs known, in the order given, uploads last."""
        return list(self._sources)

    def path(self, name: str) -> Path:
        """The file or folder a run is read from."""
        return self._sources[name].path

    def report(self, name: str) -> Report | Failure | Loading:
        """The Report of a run; reading starts when it is first asked for."""
        return self._get("report", name, self._reports, self._load_report)  # type: ignore[no-any-return]

    def details(self, name: str) -> Details | Failure | Loading:
        """What a timeline needs of a run; reading starts when it is first asked for."""
        return self._get("details", name, self._details, self._load_details)  # type: ignore[no-any-return]

    def upload(self, filename: str, data: bytes) -> str:
        """Keep an uploaded trace until the dashboard ends; returns the run's name.

        Raises `TpuprofError` where the upload is too large or one too many.
        """
        base = Path(filename.replace("\\", "/")).name[:120] or "trace"
        check_upload(base, data, len(self._uploads))
        with self._lock:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="tpuprof-upload-")
            name = f"upload {len(self._uploads) + 1}: {base}"
            path = Path(self._folder.name) / f"upload{len(self._uploads) + 1}"
            path.write_bytes(data)
            self._uploads[name] = self._sources[name] = Source(name, path, path.resolve())
        return name

    def close(self) -> None:
        """End loading and remove what was uploaded."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._folder is not None:
            self._folder.cleanup()

    def _get(self, kind: str, name: str, cache: _Cache, load: Any) -> Any:
        source = self._sources.get(name)
        if source is None:
            return Failure(f"{name}: no such run here. Choose one from the list.")
        mark = signature(source.path)
        with self._lock:
            value = cache.get(name, mark)
            if value is not None:
                return value
            failed = self._failures.get((kind, name))
            if failed and failed[0] == mark:
                return failed[1]
            if (kind, name) not in self._running:
                self._running[kind, name] = self._pool.submit(self._run, kind, source, mark, load)
        return Loading()

    def _run(self, kind: str, source: Source, mark: Any, load: Any) -> None:
        failure = None
        try:
            load(source, mark)
        except TpuprofError as error:
            failure = Failure(str(error).replace(str(source.path), source.name))
        except (
            Exception
        ) as error:  # a page must say what failed, whatever it was, and the server must live on
            failure = Failure(f"{source.name}: cannot be analysed ({type(error).__name__}: {error}).")
        with self._lock:
            if failure:
                self._failures[kind, source.name] = (mark, failure)
            self._running.pop((kind, source.name), None)

    def _load_report(self, source: Source, mark: Any) -> None:
        from tpuprof.analyse import report_of

        run = _read(source)
        report = report_of(run)
        with self._lock:
            self._runs.put(source.name, mark, run)
            self._reports.put(source.name, mark, report)

    def _load_details(self, source: Source, mark: Any) -> None:
        with self._lock:
            run = self._runs.get(source.name, mark)
            self._runs.values.pop(source.name, None)
        run = run or _read(source)
        details = Details(run, {each.name: _host_details(run, each) for each in run.hosts})
        with self._lock:
            self._details.put(source.name, mark, details)
        # Whoever asked can look already; lanes chosen later are ready by then.
        for each in (lane for host in details.hosts.values() for lane in host.lanes):
            _ = each.lane


def _read(source: Source) -> Run:
    from tpuprof.decode.find import find
    from tpuprof.model.run import build_run

    found = find(source.path)
    outside = [path for path in found.files.values() if not inside(path, [source.root])]
    if outside:
        raise TpuprofError(
            Code.UNREADABLE,
            f"{outside[0]}: leads out of {source.root}, which is all this dashboard may read.",
            "Give the path it leads to.",
        )
    return build_run(found)


def _host_details(run: Run, host_run: HostRun) -> HostDetails:
    from tpuprof.decode.load import load
    from tpuprof.model.lanes import extent, lanes_of
    from tpuprof.model.timeline import build_host
    from tpuprof_dashboard.timeline_view import default_lanes

    host = build_host(load(run.files[host_run.name]), host_run.name)
    lanes = lanes_of(host, host_run)
    for each in default_lanes(lanes):
        _ = each.lane
    return HostDetails(host, host_run, lanes, *extent(host))
