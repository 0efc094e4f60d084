"""`tpuprof.open`: a run as an object of the public Python API. Nothing is read before it is asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from tpuprof.errors import Code, TpuprofError
from tpuprof.tables.source import Source

if TYPE_CHECKING:
    import pyarrow

    from tpuprof.budget.check import Result
    from tpuprof.compare.diff import Comparison
    from tpuprof.model.compile.hlo_difference import Difference
    from tpuprof.model.preflight_notes import Variant
    from tpuprof.report.schema import CompileRow, Evidence, Finding, Report, Verdict
    from tpuprof.report.span_note import SpanNote
    from tpuprof.rules.what_if import WhatIf
    from tpuprof.tables.query import Answer

_Path = str | os.PathLike[str]


class OpenRun:
    """A captured run, or a saved report. Made by `tpuprof.open`.

    Its files are read when a property or method first needs them. All methods raise `TpuprofError` where a file cannot
    be read; a saved report or a bundle has a report and no tables, which is `input-no-trace`.
    """

    def __init__(self, paths: _Path | Iterable[_Path], executor: Executor | None = None) -> None:
        one = isinstance(paths, (str, os.PathLike))
        self._paths = [Path(paths)] if one else [Path(path) for path in paths]  # type: ignore[arg-type, union-attr]
        self._executor = executor
        self._source = Source(self._paths, executor)

    def __repr__(self) -> str:
        return f"tpuprof.open({', '.join(map(str, self._paths))!r})"

    def __enter__(self) -> OpenRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of everything that was read; the next use reads again."""
        self._source = Source(self._paths, self._executor)

    @property
    def paths(self) -> list[Path]:
        """The paths that were opened."""
        return list(self._paths)

    @property
    def report(self) -> Report:
        """What tpuprof says of the run; from the cache where it was analyzed before."""
        return self._source.report

    @property
    def verdict(self) -> Verdict:
        """What limits the run: `bound`, `share` of step time (0 to 1), and a `sentence`."""
        return self.report.verdict

    @property
    def hosts(self) -> list[str]:
        """Names of the hosts, or processes, whose profiles there are."""
        return list(self._source.found.files)

    @property
    def files(self) -> dict[str, Path]:
        """The profile of each host."""
        return dict(self._source.found.files)

    def findings(self, status: str = "failed") -> list[Finding]:
        """What rules say, most at stake first; `status` is failed, passed, not_applicable, unavailable, error or "".

        An empty status gives the findings of all rules.
        """
        found = [each for each in self.report.findings if status in ("", each.status)]
        return sorted(found, key=lambda each: -each.severity)

    def finding(self, rule: str) -> Finding | None:
        """What one rule says, whatever its status; None where the report has nothing of that rule."""
        return next((each for each in self.report.findings if each.rule == rule), None)

    def evidence(self, rule: str) -> dict[str, Evidence]:
        """The facts that a finding rests on, by their evidence ids, as in the table `evidence`."""
        from tpuprof.tables.ids import evidence_id

        found = self.finding(rule)
        return {evidence_id(rule, at): each for at, each in enumerate(found.evidence, 1)} if found else {}

    def what_if(self, rules: Sequence[str]) -> WhatIf:
        """The step time (ms) with the causes of these rules removed, by replay.

        Raises `TpuprofError` (`usage`) for an unknown rule, and where the replay does not reproduce the measured steps.
        """
        from tpuprof.rules.what_if import what_if
        from tpuprof.signals import Signals

        return what_if(Signals(self._source.fresh_report, self._source.run), rules)

    def compare(self, candidate: OpenRun | _Path) -> Comparison:
        """What changed from this run to another beyond noise; as `tpuprof diff` with this run as the base."""
        from tpuprof.compare.diff import diff

        other = candidate if isinstance(candidate, OpenRun) else OpenRun(candidate)
        return diff(self.report, other.report)

    def check(self, budget: _Path, baseline: OpenRun | None = None) -> list[Result]:
        """Hold the run against a budget (`tpuprof.toml`), as `tpuprof check` does.

        Raises `TpuprofError` (`budget-invalid`).
        """
        from tpuprof.budget.check import check, read_budget

        return check(read_budget(Path(budget)), self.report, baseline.report if baseline else None)

    def program_change(self, compiled: CompileRow) -> Difference:
        """The lines in which the program of a compile differs from the nearest earlier one, both optimized.

        `compiled` is a row of `report.compiles`. Raises `TpuprofError`: `input-no-trace` for a saved report, `usage`
        for a row of another run, and `input-no-program` where the capture does not hold both programs.
        """
        from tpuprof.model.compile.hlo_metadata import hlo_protos
        from tpuprof.model.compile.program_change import program_change

        self._check_host(compiled.host)
        host = next(each for each in self._source.run.hosts if each.name == compiled.host)
        protos = dict(hlo_protos(self._source.timeline(host.name).trace))
        found = program_change(compiled.program, compiled.start_ns, host.compiles, host.devices, protos)
        if isinstance(found, str):
            raise TpuprofError(
                Code.NO_PROGRAM,
                f"{compiled.program or 'this compile'}: {found.removeprefix('unavailable: ')}",
                "Capture steps from before the compile and after it, with `tpuprof capture`.",
            )
        return found

    @property
    def notes(self) -> list[SpanNote]:
        """What people noted on spans of the timeline, in order of time."""
        return list(self.report.span_notes)

    def write_notes(self, notes: Iterable[SpanNote]) -> None:
        """Keep these notes in place of those that the run has, as the dashboard does.

        Raises `TpuprofError`: `output-failed`, and `input-no-trace` for a saved report.
        """
        from tpuprof.model.span_notes import write_span_notes

        write_span_notes(self._source.found, list(notes))
        self.close()

    def save_window(self, path: _Path, host: str, start_ps: int, end_ps: int) -> int:
        """Write the events of a host in a window as gzipped Chrome JSON, for Perfetto; how many were left out.

        Times are from the host's origin, as `start_ps` in tables. Raises `OSError`, and `TpuprofError` (`usage`) for
        an unknown host.
        """
        from tpuprof.export.chrome_json import chrome_json

        self._check_host(host)
        data, left_out = chrome_json(self._source.timeline(host), start_ps, end_ps)
        Path(path).write_bytes(data)
        return left_out

    def _check_host(self, name: str) -> None:
        if name not in self._source.found.files:
            raise TpuprofError(Code.USAGE, f"{name}: no such host.", f"Hosts are {', '.join(self.hosts)}.")

    def preflight(self) -> tuple[list[Variant], list[str]]:
        """What the TPU compiler said of the script, as the run folder has it, and notes on what is wrong there."""
        from tpuprof.model.preflight_notes import read_preflight
        from tpuprof.model.run import read_run_info

        folder = None if self._source.is_saved else self._source.found.run_folder
        info, notes = read_run_info(folder)
        found, unread = read_preflight(folder, info)
        return found, [*notes, *unread]

    @property
    def tables(self) -> list[str]:
        """Names of the tables; docs/tables.md describes them."""
        from tpuprof.tables.schema import TABLES

        return [table.name for table in TABLES]

    def table(self, name: str) -> pyarrow.Table:
        """One table. Text columns are dictionaries. Needs the extra `tables`.

        Raises `TpuprofError`: `usage` for an unknown name, `missing-extra`.
        """
        from tpuprof.tables.build import build_table

        return build_table(self._source, name)

    def query(self, sql: str, *, most: int | None = None, time_limit_s: float | None = None) -> Answer:
        """The first `most` rows of one SELECT over the tables, by DuckDB, without access to files or network.

        Tables that it does not name are not decoded. Needs the extra `tables`. Raises `TpuprofError`: `query-refused`,
        `query-invalid`, `query-too-long`, `query-too-large`, `missing-extra`.
        """
        from tpuprof.tables.query import MAX_ROWS, TIME_LIMIT_S, query

        rows, seconds = most or MAX_ROWS, time_limit_s or TIME_LIMIT_S
        return query(self._source, sql, most=rows, time_limit_s=seconds)

    def export(self, folder: _Path, tables: Iterable[str] = (), *, force: bool = False) -> dict[Path, int]:
        """Write tables (all, or those named) as Parquet files; the number of rows of each file.

        Needs the extra `tables`. Raises `TpuprofError`: `output-exists`, `output-failed`, `missing-extra`.
        """
        from tpuprof.tables.export import export_parquet

        return export_parquet(self._source, Path(folder), tables, force=force)

    def save(self, path: _Path, *, redact: bool = True) -> list[str]:
        """Write the report; the suffix says how: .html, .md, .json, .sarif, or .zip for a ticket. Notes on the file.

        Private values are replaced by pseudonyms unless `redact` is false. Raises `OSError`, and `TpuprofError`
        (`usage`) for another suffix.
        """
        from tpuprof.share.redacted_report import redactor_for
        from tpuprof.share.save import save_report

        folder = None if self._source.is_saved else self._source.found.run_folder
        redactor = redactor_for(self.report) if redact else None
        return save_report(Path(path), self.report, folder, redactor)


def open_run(paths: _Path | Iterable[_Path], executor: Executor | None = None) -> OpenRun:
    """Open a trace file, a run folder, a logdir, a saved report, or one file per host.

    Nothing is read yet. `executor` is any `concurrent.futures.Executor`; each host's file is then one task.
    """
    return OpenRun(paths, executor)


@contextmanager
def read_in_processes(path: Path) -> Iterator[OpenRun]:
    """A run of which several hosts are read at a time, for commands: a library must not start processes."""
    from tpuprof.analysis.processes import processes
    from tpuprof.report.saved import is_saved_report

    if is_saved_report(path):
        yield OpenRun(path)
        return
    with processes(OpenRun(path)._source.found) as executor:
        yield OpenRun(path, executor)
