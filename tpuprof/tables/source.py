"""What tables are made from: the files of a run, read when first needed, each part once."""

from __future__ import annotations

import json
from concurrent.futures import Executor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tpuprof.errors import Code, TpuprofError

if TYPE_CHECKING:
    from tpuprof.decode.find import Found
    from tpuprof.model.run import Run
    from tpuprof.model.timeline import Host, Track
    from tpuprof.report.schema import Report


class Source:
    """The files at one or several paths, or a saved report. Nothing is read before it is asked for."""

    def __init__(self, paths: list[Path], executor: Executor | None = None) -> None:
        self.paths = paths
        self._executor = executor
        self._timelines: dict[str, Host] = {}

    @cached_property
    def is_saved(self) -> bool:
        """Whether the path is a saved report or a bundle, which has no events."""
        from tpuprof.report.saved import is_saved_report

        return len(self.paths) == 1 and is_saved_report(self.paths[0])

    @cached_property
    def found(self) -> Found:
        """The profiler files. Raises `TpuprofError`."""
        from tpuprof.decode.find import find_all

        if self.is_saved:
            raise TpuprofError(
                Code.NO_TRACE,
                f"{self.paths[0]}: a saved report holds no events.",
                "Give the run it was made from.",
            )
        return find_all(self.paths)

    @cached_property
    def run(self) -> Run:
        """All hosts, decoded and analyzed. Raises `TpuprofError`."""
        from tpuprof.model.run import build_run

        return build_run(self.found, self._executor)

    @cached_property
    def report(self) -> Report:
        """The saved report, the one in the cache, or one that is made now and kept there. Raises `TpuprofError`."""
        if self.is_saved:
            from tpuprof.report.load import read_report

            return read_report(self.paths[0])
        from tpuprof.analysis import cache

        try:
            entry = cache.key(self.found)
        except OSError:  # whatever cannot be read is shown by the analysis
            entry = ""
        kept = cache.read(entry) if entry else None
        if kept is not None:
            from tpuprof.report.load import report_from

            return report_from(json.loads(kept))
        return self._analyzed(entry)

    @cached_property
    def fresh_report(self) -> Report:
        """The report of the decoded run itself, with all that a replay needs. Raises `TpuprofError`."""
        from tpuprof.analysis.analyze import report_of

        return report_of(self.run)

    def timeline(self, host: str) -> Host:
        """One host's lines on one clock, decoded once. Raises `TpuprofError`."""
        from tpuprof.decode.load import load
        from tpuprof.model.timeline import build_host

        if host not in self._timelines:
            trace = load(self.found.files[host])
            self._timelines[host] = build_host(trace, host)
            trace.check()
        return self._timelines[host]

    def threads(self, host: str) -> list[Track]:
        """The threads of one host that have events."""
        return self.timeline(host).threads

    def _analyzed(self, entry: str) -> Report:
        from tpuprof.analysis import cache
        from tpuprof.report.as_json import to_json

        if entry:
            cache.write(entry, to_json(self.fresh_report))
        return self.fresh_report
