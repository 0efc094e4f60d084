"""Reads runs in the background and keeps the last few: Reports, and what timelines need of them.

A page asks for a run and learns whether it is ready, loading or failed; nobody waits for another's load.
Memory is bounded by the number of Reports and of timelines kept, least recently used first to go.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tpuprof.errors import TpuprofError
from tpuprof_dashboard.reading import (
    Details,
    Tell,
    details_of,
    found_of,
    read_run,
    read_saved,
    report_of,
    saved_details,
)
from tpuprof_dashboard.recent import Recent
from tpuprof_dashboard.run_labels import run_labels
from tpuprof_dashboard.runs import Source, signature, sources
from tpuprof_dashboard.trial import refuse_greedy
from tpuprof_dashboard.uploads import Uploads

if TYPE_CHECKING:
    from tpuprof.compare.diff import Comparison
    from tpuprof.report.schema import Report
    from tpuprof.report.span_note import SpanNote
    from tpuprof_dashboard.viewers import Viewers

# Reports kept (runs): a large one is some 20 MB.
MAX_REPORTS = 16
# Timelines kept, and as many runs whose timeline may be asked for next (runs): one of three million events takes
# some 300 MB as a timeline with all lanes drawn, 200 MB as a run.
MAX_DETAILS = 2
# Comparisons kept (pairs of runs): each is some tables.
MAX_COMPARISONS = 32
# Loads at a time: a small run need not wait for a large one.
_LOADERS = 2


@dataclass(frozen=True)
class Failure:
    """Why a run could not be read, in one line."""

    message: str


@dataclass(frozen=True)
class Loading:
    """Says that a run is being read: the share done as far as it is known, what is being done, and seconds since."""

    done: float = 0.0
    doing: str = ""
    seconds: int = 0


@dataclass
class _Progress:
    """How far a load is; whoever loads writes, whoever asks reads."""

    begun: float
    done: float = 0.0
    doing: str = ""

    def tell(self, done: float, doing: str) -> None:
        self.done, self.doing = done, doing

    def loading(self) -> Loading:
        return Loading(self.done, self.doing, int(time.monotonic() - self.begun))


class Store:
    """The runs below the given paths, and those uploaded. Safe to use from several threads."""

    def __init__(self, paths: Sequence[Path], viewers: Viewers | None = None) -> None:
        """`viewers` starts other programs for whoever asks; None where strangers may."""
        self.viewers = viewers
        self._given = list(paths)
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_LOADERS, "tpuprof-load")
        self._reports, self._details = Recent(MAX_REPORTS), Recent(MAX_DETAILS)
        self._comparisons = Recent(MAX_COMPARISONS)
        # Runs that were read for their Report and whose timeline was not asked for yet.
        self._runs = Recent(MAX_DETAILS)
        self._running: dict[tuple[str, str], _Progress] = {}
        self._failures: dict[tuple[str, str], tuple[Any, Failure]] = {}
        self._uploads = Uploads()
        # Uploads come from unknown senders: they are read one at a time, so that their memory does not add up.
        self._one_upload = threading.Lock()
        self._sources: dict[str, Source] = {}
        # Runs that have been seen, by the names they go by.
        self._named: dict[str, Path] = {}
        self._first_names: dict[Path, str] = {}
        self.rescan()

    @property
    def watching(self) -> bool:
        """Whether a folder was given, in which runs may appear."""
        return any(path.is_dir() for path in self._given)

    def rescan(self) -> list[str]:
        """Look for runs again; returns the names of all there are now."""
        scanned = sources(self._given)
        with self._lock:
            found = {each.name: each for each in map(self._as_first_named, scanned)}
            self._sources = {**self._uploads.kept(), **found}
            return list(self._sources)

    def _as_first_named(self, source: Source) -> Source:
        """The same run under the name it had first: a folder's only run keeps it when others appear beside it."""
        taken = self._named.get(source.name, source.path) != source.path
        name = self._first_names.get(source.path) or (str(source.path) if taken else source.name)
        self._named[name] = source.path
        self._first_names.setdefault(source.path, name)
        return replace(source, name=name)

    def given(self) -> list[Path]:
        """The paths that the dashboard was opened on."""
        return list(self._given)

    def names(self) -> list[str]:
        """Names of the runs known: uploads, then the others, the newest first."""
        return list(self._sources)

    def labels(self) -> dict[str, str]:
        """What the runs are called on screen, by name."""
        return run_labels(self._sources.values())

    def is_upload(self, name: str) -> bool:
        """Whether a run was uploaded, so that it can be removed."""
        source = self._sources.get(name)
        return source is not None and source.uploaded

    def path(self, name: str) -> Path:
        """The file or folder a run is read from."""
        return self._sources[name].path

    def is_saved(self, name: str) -> bool:
        """Whether a run is a saved report or a bundle."""
        from tpuprof.report.saved import is_saved_report

        source = self._sources.get(name)
        return source is not None and is_saved_report(source.path)

    def report(self, name: str) -> Report | Failure | Loading:
        """The Report of a run; reading starts when it is first asked for."""
        return self._of_run("report", name, self._reports, self._load_report)  # type: ignore[no-any-return]

    def details(self, name: str) -> Details | Failure | Loading:
        """What a timeline needs of a run; reading starts when it is first asked for."""
        return self._of_run("details", name, self._details, self._load_details)  # type: ignore[no-any-return]

    def comparison(self, base: str, candidate: str) -> Comparison | Failure | Loading:
        """What changed from one run to another; both are read where they are not."""
        reports = [self.report(name) for name in (base, candidate)]
        for each in sorted(reports, key=lambda each: isinstance(each, Loading)):
            if isinstance(each, (Failure, Loading)):
                return each
        mark = tuple(map(id, reports))

        def load(_tell: Tell) -> None:
            from tpuprof.compare.diff import diff

            found = diff(*reports)  # type: ignore[arg-type]
            with self._lock:
                self._comparisons.put(f"{base}\n{candidate}", (mark, reports), found)

        return self._get(  # type: ignore[no-any-return]
            "comparison", f"{base}\n{candidate}", (mark, reports), self._comparisons, load
        )

    def may_note(self, name: str) -> bool:
        """Whether notes on a run can be kept: a saved report is not changed."""
        return name in self._sources and not self.is_saved(name)

    def note(self, name: str, change: Callable[[list[SpanNote]], list[SpanNote]]) -> Failure | None:
        """Change the notes on a run, which are kept at once; says why where that cannot be.

        Its Report and its timeline have them from then on, without being read again.
        """
        from tpuprof.model.span_notes import MOST_NOTES, read_span_notes, write_span_notes
        from tpuprof_dashboard.report_lanes import with_notes

        if not self.may_note(name):
            return Failure(f"{name}: notes can be made on runs alone, not on saved reports.")
        source = self._sources[name]
        with self._lock:
            try:
                found = found_of(source)
                changed = change(read_span_notes(found))
                if len(changed) > MOST_NOTES:
                    return Failure(f"A run has {MOST_NOTES} notes at most: delete one first.")
                write_span_notes(found, changed)
                notes = read_span_notes(found)
            except TpuprofError as error:
                return Failure(str(error))
            mark = signature(source.path)
            report, details = self._reports.get(name, mark), self._details.get(name, mark)
            if report is not None:
                self._reports.put(name, mark, replace(report, span_notes=notes))
            for host in details.hosts.values() if details is not None else []:
                host.lanes = with_notes(host.lanes, notes, host.name)
        return None

    def bundle(self, name: str, out: Path) -> Failure | None:
        """Write the redacted ticket bundle of a run whose Report has been read; says why where it cannot.

        Raises `OSError` where `out` cannot be written.
        """
        from tpuprof.share.bundle import write_bundle
        from tpuprof.share.redacted_report import redactor_for

        report, source = self.report(name), self._sources.get(name)
        if isinstance(report, Failure) or source is None:
            return report if isinstance(report, Failure) else Failure(f"{name}: no such run here.")
        if isinstance(report, Loading):
            return Failure(f"{name}: is still being read. Try again when it is shown.")
        if self.is_saved(name):
            return Failure(f"{name}: is a saved report. A ticket report is made from the run itself.")
        try:
            write_bundle(out, report, found_of(source).run_folder, redactor_for(report))
        except TpuprofError as error:
            return Failure(str(error))
        return None

    def upload(self, filename: str, data: IO[bytes]) -> str:
        """Keep an upload until it is removed or the dashboard ends; returns the run's name.

        Raises `TpuprofError` where it is too large or one too many.
        """
        source = self._uploads.add(filename, data)
        self.rescan()
        return source.name

    def remove(self, name: str) -> None:
        """Delete an upload and all that was made of it; other runs stay."""
        if not self._uploads.remove(name):
            return
        self.rescan()
        with self._lock:
            for cache in (self._reports, self._details, self._runs):
                cache.values.pop(name, None)
            for pair in [each for each in self._comparisons.values if name in each.split("\n")]:
                del self._comparisons.values[pair]

    def close(self) -> None:
        """End other programs and remove what was uploaded at once; loads that are under way end with the process."""
        if self.viewers is not None:
            self.viewers.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._uploads.close()

    def _of_run(self, kind: str, name: str, cache: Recent, load: Callable[[Source, Any, Tell], None]) -> Any:
        source = self._sources.get(name)
        if source is None:
            return Failure(f"{name}: no such run here. Choose one from the list.")
        mark = signature(source.path)
        return self._get(kind, name, mark, cache, lambda tell: load(source, mark, tell))

    def _get(self, kind: str, name: str, mark: Any, cache: Recent, load: Callable[[Tell], None]) -> Any:
        with self._lock:
            value = cache.get(name, mark)
            if value is not None:
                return value
            failed = self._failures.get((kind, name))
            if failed and failed[0] == mark:
                return failed[1]
            progress = self._running.get((kind, name))
            if progress is None:
                progress = self._running[kind, name] = _Progress(time.monotonic())
                self._pool.submit(self._run, kind, name, mark, lambda: load(progress.tell))
            return progress.loading()

    def _run(self, kind: str, name: str, mark: Any, load: Callable[[], None]) -> None:
        failure = None
        source = self._sources.get(name)
        try:
            with self._one_upload if source is not None and source.uploaded else nullcontext():
                load()
        except TpuprofError as error:
            text = str(error)
            failure = Failure(text.replace(str(source.path), source.name) if source else text)
        except (
            Exception
        ) as error:  # a page must say what failed, whatever it was, and the server must live on
            failure = Failure(f"{name}: cannot be analyzed ({type(error).__name__}: {error}).")
        with self._lock:
            if failure:
                self._failures[kind, name] = (mark, failure)
            self._running.pop((kind, name), None)

    def _load_report(self, source: Source, mark: Any, tell: Tell) -> None:
        run = None
        self._try_upload(source, mark)
        if self.is_saved(source.name):
            report = read_saved(source)
        else:
            report, run = report_of(found_of(source), tell)
        with self._lock:
            if run is not None:
                self._runs.put(source.name, mark, run)
            self._reports.put(source.name, mark, report)

    def _try_upload(self, source: Source, mark: Any) -> None:
        """Refuse an upload that takes too much memory, and let go of the events of others: they do not add up.

        Raises `TpuprofError`.
        """
        if not source.uploaded:
            return
        with self._lock:
            for cache in (self._details, self._runs):
                for each in [
                    other for other in cache.values if other != source.name and self.is_upload(other)
                ]:
                    del cache.values[each]
            was_read = self._reports.get(source.name, mark) is not None
        if not was_read:
            refuse_greedy(source.name, source.path)

    def _load_details(self, source: Source, mark: Any, tell: Tell) -> None:
        self._try_upload(source, mark)
        if self.is_saved(source.name):
            with self._lock:
                report = self._reports.get(source.name, mark)
            details = saved_details(report or read_saved(source))
        else:
            with self._lock:
                run = self._runs.get(source.name, mark)
                self._runs.values.pop(source.name, None)
            details = details_of(run or read_run(found_of(source), tell), tell)
        with self._lock:
            self._details.put(source.name, mark, details)
        # Whoever asked can look already; lanes chosen later, and what a click asks for, are ready by then.
        for host in details.hosts.values():
            host.links()
            for each in host.lanes:
                _ = each.lane
