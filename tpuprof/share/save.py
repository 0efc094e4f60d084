"""Writes a report to a file whose suffix says how."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tpuprof.errors import Code, TpuprofError

if TYPE_CHECKING:
    from tpuprof.report.schema import Report
    from tpuprof.share.redact import Redactor

FORMATS = (".html", ".md", ".json", ".zip", ".sarif")
# Findings by line are for who has the code: lines that are replaced would lead nowhere.
NOT_REDACTED = (".sarif",)


def check_format(out: Path) -> None:
    """Raise `TpuprofError` (`usage`) where no format has that suffix."""
    if out.suffix not in FORMATS:
        raise TpuprofError(Code.USAGE, f"{out}: unsupported suffix.", f"Use one of {', '.join(FORMATS)}.")


def save_report(out: Path, report: Report, run_folder: Path | None, redactor: Redactor | None) -> list[str]:
    """Write a report, redacted where a redactor is given; notes on what a bundle could not hold.

    Raises `OSError`, and `TpuprofError` (`usage`) for an unsupported suffix.
    """
    check_format(out)
    if out.suffix == ".zip":
        from tpuprof.share.bundle import write_bundle

        return list(write_bundle(out, report, run_folder, redactor))
    shown = report
    if redactor is not None and out.suffix not in NOT_REDACTED:
        from tpuprof.share.redacted_report import redacted

        shown = redacted(report, redactor)
    out.write_text(_renderer(out.suffix)(shown), "utf-8")
    return []


def _renderer(suffix: str) -> Callable[[Report], str]:
    if suffix == ".html":
        from tpuprof.render.html import render_html

        return render_html
    if suffix == ".md":
        from tpuprof.render.markdown import render_markdown

        return render_markdown
    if suffix == ".sarif":
        from tpuprof.render.sarif import render_sarif

        return render_sarif
    from tpuprof.report.as_json import to_json

    return to_json
