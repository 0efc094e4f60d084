"""What commands that read a run have in common: a path may be a run, a saved report or a ticket bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuprof.report.redact import Redactor
    from tpuprof.report.schema import Report


def open_report(path: Path) -> Report:
    """The Report of a run, or the one saved at that path. Raises `TpuprofError`."""
    from tpuprof.report.load import is_saved_report, read_report

    if is_saved_report(path):
        return read_report(path)
    from tpuprof.analyse import analyse_run

    return analyse_run(path)


def run_folder_of(path: Path) -> Path | None:
    """The run folder a path belongs to, None where tpuprof did not capture it."""
    from tpuprof.decode.find import find
    from tpuprof.report.load import is_saved_report

    return None if is_saved_report(path) else find(path).run_folder


def redactor_for(*reports: Report) -> Redactor:
    """A redactor that has learnt what is private from these reports and from this machine."""
    from tpuprof.decode.find import host_name
    from tpuprof.report.redact import Redactor

    redactor = Redactor()
    redactor.learn_this_machine()
    for report in reports:
        redactor.learn(report.to_dict())
        for file in report.source.get("files", []):
            redactor.learn(str(Path(file).absolute()))
            redactor.learn(host_name(Path(file)), "host")
    return redactor
