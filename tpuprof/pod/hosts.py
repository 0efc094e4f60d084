"""Finds the hosts of a pod, and makes one task of each: read its file, analyze it, pack the summary."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tpuprof.decode.find import Found, find, host_name
from tpuprof.errors import TpuprofError
from tpuprof.model.compile.recurrence import History
from tpuprof.model.host_run import read_host_run
from tpuprof.model.notes import Notes, read_notes
from tpuprof.model.preflight_notes import Variant, read_preflight
from tpuprof.model.proof_notes import Proof, read_proofs
from tpuprof.model.run import Run, job_facts, read_run_info, run_notes
from tpuprof.model.span_notes import read_span_notes
from tpuprof.records import record
from tpuprof.report.span_note import SpanNote
from tpuprof.run_folder import PROFILE_SUFFIXES, RUN_INFO
from tpuprof.storage.address import shown, url_of
from tpuprof.storage.mirror import listing
from tpuprof.storage.store import Entry, fetch


@record(frozen=True)
class Job:
    """One host: where its file lies (a path or URL), how reports name that, and what the run folder says of it."""

    name: str
    place: str
    shown: str
    info: dict[str, Any]
    notes: Notes
    history: History
    preflight: list[Variant]


@record(frozen=True)
class Hosts:
    """All hosts of a run, by name, and what the run folder says of them together."""

    jobs: list[Job]
    info: dict[str, Any]
    warnings: list[str]
    notes: Notes
    proofs: list[Proof]
    span_notes: list[SpanNote]


def hosts_of(path: str | Path) -> Hosts:
    """The hosts of a run here or at a URL; profiles at a URL are not read yet. Raises `TpuprofError`."""
    url = url_of(path)
    if url is None:
        return hosts_found(find(Path(path)))
    entries, _ = listing(url)
    profiles = {host_name(Path(each.below)): each for each in entries if _is_profile(each)}
    notes = [each for each in entries if not _is_profile(each)]
    with tempfile.TemporaryDirectory(prefix="tpuprof-") as place:
        folder = Path(place)
        for each in notes:
            fetch(each, folder / each.below)
        found = Found({}, folder)
        places = {name: (each.url, shown(each.url)) for name, each in profiles.items()}
        return _hosts(found, places, [])


def hosts_found(found: Found) -> Hosts:
    """The hosts of a run whose files are here."""
    return _hosts(found, {name: (str(path), str(path)) for name, path in found.files.items()}, found.warnings)


def _is_profile(entry: Entry) -> bool:
    return entry.below.endswith(PROFILE_SUFFIXES)


def _hosts(found: Found, places: dict[str, tuple[str, str]], warnings: list[str]) -> Hosts:
    info, unread = read_run_info(found.run_folder)
    notes = read_notes(found.run_folder, info)
    preflight, unread_preflight = read_preflight(found.run_folder, info)
    jobs = [
        Job(name, place, text, info, notes, history, preflight)
        for name, (place, text) in sorted(places.items())
        for history in [job_facts(found.run_folder, name, info)]
    ]
    noted = run_notes(info, len(jobs))
    damaged = [text for job in jobs for text in job.history.damaged]
    proofs = read_proofs(found.run_folder, damaged)
    return Hosts(
        jobs,
        info,
        [*warnings, *unread, *noted, *unread_preflight, *damaged],
        notes,
        proofs,
        _span_notes(found),
    )


def _span_notes(found: Found) -> list[SpanNote]:
    """Notes on spans; those of a run at a URL lie in its run folder or nowhere."""
    noted = found.run_folder is not None and (found.run_folder / RUN_INFO).is_file()
    return read_span_notes(found) if found.files or noted else []


def summarise_host(job: Job) -> bytes:
    """Read and analyze one host's file, and pack what the report of the pod needs. Raises `TpuprofError`."""
    from tpuprof.analysis.analyze import report_of
    from tpuprof.model.run import parameter_names, virtual_devices
    from tpuprof.pod.pack import to_bytes
    from tpuprof.pod.summary import summarise

    with _file(job.place) as path:
        try:
            host = read_host_run(
                job.name, path, virtual_devices(job.info), parameter_names(job.info), job.history
            )
            report = report_of(Run({job.name: path}, [host], job.info, [], job.notes, job.preflight))
        except TpuprofError as error:
            # Named as the user does, not by the copy.
            message = error.message.replace(str(path), job.shown)
            raise TpuprofError(error.code, message, error.hint) from None
        warnings = [text.replace(str(path), job.shown) for text in report.warnings]
        return to_bytes(summarise(host, replace(report, warnings=warnings), job.shown))


@contextmanager
def _file(place: str) -> Iterator[Path]:
    """The file here; of a URL a copy, in memory where there is room, for as long as this host is analyzed."""
    url = url_of(place)
    if url is None:
        yield Path(place)
        return
    from tpuprof.storage.mirror import forget, local

    try:
        yield local(url)
    finally:
        forget(url)
