"""What commands that read a run have in common: a path may be a run, a saved report or a ticket bundle."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuprof.decode.columns import Trace
    from tpuprof.report.schema import Report


# What is kept of a run in the cache, else the rest of its analysis.
_Begun = str | Callable[[], tuple["Report", str]]
_begun: dict[tuple[Path, bool], _Begun] = {}


def begin_opening(path: str, *, use_cache: bool) -> None:
    """Begin with what `open_report` or `open_json` of that path will do; what is wrong with it they will tell."""
    from tpuprof.errors import TpuprofError
    from tpuprof.report.saved import is_saved_report

    try:
        if not is_saved_report(Path(path)):
            _begun[Path(path), use_cache] = _begin(Path(path), use_cache)
    except (TpuprofError, OSError):
        return


def open_report(path: Path, *, use_cache: bool = True) -> Report:
    """The Report of a run, or the one saved at that path. Raises `TpuprofError`."""
    import json

    from tpuprof.report.saved import is_saved_report

    if is_saved_report(path):
        from tpuprof.report.load import read_report

        return read_report(path)
    begun = _begun.pop((path, use_cache), None) or _begin(path, use_cache)
    if not isinstance(begun, str):
        return begun()[0]
    from tpuprof.report.load import report_from

    return report_from(json.loads(begun))


def open_json(path: Path, *, use_cache: bool = True) -> str:
    """The same Report as JSON text. Raises `TpuprofError`."""
    from tpuprof.report.saved import is_saved_report

    if is_saved_report(path):
        from tpuprof.report.as_json import to_json
        from tpuprof.report.load import read_report

        return to_json(read_report(path))
    begun = _begun.pop((path, use_cache), None) or _begin(path, use_cache)
    return begun if isinstance(begun, str) else begun()[1]


def run_folder_of(path: Path) -> Path | None:
    """The run folder a path belongs to, None where tpuprof did not capture it."""
    from tpuprof.decode.find import find
    from tpuprof.report.saved import is_saved_report

    return None if is_saved_report(path) else find(path).run_folder


def _kept(path: Path, use_cache: bool) -> tuple[str, str | None]:
    """The key of a run's report in the cache, empty where none is to be kept, and what is kept there."""
    from tpuprof.decode.find import find

    if not use_cache:
        return "", None
    from tpuprof import cache

    try:
        entry = cache.key(find(path))
    except OSError:  # whatever cannot be read is told by the analysis
        return "", None
    return entry, cache.read(entry)


def _begin(path: Path, use_cache: bool) -> _Begun:
    entry, text = _kept(path, use_cache)
    if text:
        return text
    from tpuprof.cli.process import prepare

    # numpy's linear algebra is not used; its threads would only spin while they wait.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    prepare()
    from tpuprof.decode.ahead import reading_ahead

    return partial(_analysed, path, entry, reading_ahead(path))


def _analysed(path: Path, entry: str, read: Callable[[Path], Trace]) -> tuple[Report, str]:
    from tpuprof.cli.progress import working

    with working(f"analysing {path}"):
        from tpuprof.analyse import analyse_run
        from tpuprof.report.as_json import to_json
        from tpuprof.rules.registry import all_rules

        all_rules()
        report = analyse_run(path, read=read)
        text = to_json(report)
    if entry:
        from tpuprof import cache

        cache.write(entry, text)
    return report, text
