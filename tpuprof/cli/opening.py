"""What commands that read a run have in common: a path may be a run, a saved report or a ticket bundle."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tpuprof.decode.columns import Trace
    from tpuprof.decode.find import Found
    from tpuprof.report.schema import Report

# From this many hosts on a run is analyzed as a pod (hosts); see `tpuprof.pod.analyze`, which is not imported for less.
MANY_HOSTS = 33


def is_url(path: Path) -> bool:
    """Whether a path given on the command line is a URL; quick for one that is not."""
    if ":/" not in str(path):
        return False
    from tpuprof.storage.address import url_of

    return url_of(path) is not None


def here(path: Path) -> Path:
    """The path; of a URL, a copy of the run there on this machine. Raises `TpuprofError`."""
    if not is_url(path):
        return path
    from tpuprof.cli.progress import working
    from tpuprof.storage.address import shown, url_of
    from tpuprof.storage.mirror import local

    with working(f"reading {shown(url_of(path) or '')}"):
        return local(path)


def open_report(
    path: Path, *, use_cache: bool = True, all_ops: bool = False, in_columns: bool = False
) -> Report:
    """The Report of a run, or the one saved at that path. Raises `TpuprofError`.

    With all ops, also those that take next to no time, it is made again, and not kept. `in_columns` is for those who
    write it to a file alone: its ops may be `OpRows`, which are no list.
    """
    import json

    if is_url(path):
        from tpuprof.report.load import report_from

        return report_from(json.loads(_json_of_url(path, all_ops)))
    from tpuprof.decode.find import find
    from tpuprof.report.saved import is_saved_report

    if is_saved_report(path):
        from tpuprof.report.load import read_report

        return read_report(path)
    found = find(path)
    entry, text = _kept(found, use_cache and not all_ops)
    if text is None:
        report = _analyzed(path, found, entry, all_ops)[0]
        if in_columns:
            return report
        from tpuprof.analysis.analyze import with_rows

        return with_rows(report)
    from tpuprof.report.load import report_from

    return report_from(json.loads(text))


def open_json(path: Path, *, use_cache: bool = True, all_ops: bool = False) -> str:
    """The same Report as JSON text. Raises `TpuprofError`."""
    if is_url(path):
        return _json_of_url(path, all_ops)
    from tpuprof.decode.find import find
    from tpuprof.report.saved import is_saved_report

    if is_saved_report(path):
        from tpuprof.report.as_json import to_json
        from tpuprof.report.load import read_report

        return to_json(read_report(path))
    found = find(path)
    entry, text = _kept(found, use_cache and not all_ops)
    return _analyzed(path, found, entry, all_ops)[1] if text is None else text


def _json_of_url(path: Path, all_ops: bool) -> str:
    """The Report of a run at a URL; it names the URL, and says which objects could not be read. Nothing is kept."""
    import json

    from tpuprof.cli.pods import is_pod, pod_report

    if is_pod(path):
        from tpuprof.report.as_json import to_json

        return to_json(pod_report(path))
    copy = here(path)
    from tpuprof.storage.mirror import failures, with_urls

    text = with_urls(open_json(copy, use_cache=False, all_ops=all_ops))
    if not failures(path):
        return text
    found = json.loads(text)
    found["warnings"] = [*failures(path), *found.get("warnings", [])]
    return json.dumps(found, indent=1, allow_nan=False)


def run_folder_of(path: Path) -> Path | None:
    """The run folder a path belongs to, None where tpuprof did not capture it."""
    from tpuprof.decode.find import find
    from tpuprof.report.saved import is_saved_report

    path = here(path)
    return None if is_saved_report(path) else find(path).run_folder


def _kept(found: Found, use_cache: bool) -> tuple[str, str | None]:
    """The key of a run's report in the cache, empty where none is to be kept, and what is kept there."""
    if not use_cache:
        return "", None
    if len(found.files) >= MANY_HOSTS:
        return "", None
    from tpuprof.analysis import cache

    try:
        entry = cache.key(found)
    except OSError:  # whatever cannot be read is shown by the analysis
        return "", None
    return entry, cache.read(entry)


def _analyzed(path: Path, found: Found, entry: str, all_ops: bool) -> tuple[Report, str]:
    if len(found.files) >= MANY_HOSTS:
        return _analyzed_as_pod(found)
    with _hosts_read_by(found) as executor:
        return _analyzed_by(executor, path, found, entry, all_ops)


def _analyzed_as_pod(found: Found) -> tuple[Report, str]:
    """The Report of many hosts. It is not kept: to know that no file changed takes reading a part of each."""
    _prepare()
    from tpuprof.cli.pods import pod_report
    from tpuprof.pod.hosts import hosts_found
    from tpuprof.report.as_json import to_json

    report = pod_report(hosts_found(found))
    return report, to_json(report)


def _hosts_read_by(found: Found) -> AbstractContextManager[Executor | None]:
    """What reads the hosts of a run of many; imported for those alone."""
    if len(found.files) == 1:
        return nullcontext()
    _prepare()
    from tpuprof.analysis.processes import processes

    return processes(found)


def _analyzed_by(
    executor: Executor | None, path: Path, found: Found, entry: str, all_ops: bool
) -> tuple[Report, str]:
    read = _reading(found) if executor is None else None
    from tpuprof.cli.progress import working

    with working(f"analyzing {_shown(path)}"):
        from tpuprof.analysis.analyze import report_in_columns
        from tpuprof.decode.load import load
        from tpuprof.model.run import build_run
        from tpuprof.report.as_json import to_json
        from tpuprof.rules.registry import all_rules

        all_rules()
        report = report_in_columns(build_run(found, executor, read or load), all_ops=all_ops)
        text = to_json(report)
    if entry:
        from tpuprof.analysis import cache

        cache.write(entry, text)
    return report, text


def _shown(path: Path) -> str:
    mirror = sys.modules.get("tpuprof.storage.mirror")
    return mirror.with_urls(str(path)) if mirror else str(path)


def _prepare() -> None:
    from tpuprof.cli.process import prepare

    # numpy's linear algebra is not used; its threads would only spin while they wait.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    prepare()


def _reading(found: Found) -> Callable[[Path], Trace]:
    """Begin to read, so that what analyzes it is imported meanwhile."""
    _prepare()
    from tpuprof.decode.prefetch import reading_ahead

    return reading_ahead(found)
