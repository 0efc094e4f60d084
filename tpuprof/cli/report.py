"""`tpuprof report`: writes a report to send: html, markdown, JSON, or a ticket bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tpuprof.cli.options import NoRedact
from tpuprof.errors import Code, TpuprofError, writing

if TYPE_CHECKING:
    from collections.abc import Callable

    from tpuprof.report.schema import Report
    from tpuprof.share.redact import Redactor

Source = Annotated[
    Path,
    typer.Argument(
        help="A trace file, a run folder, a TensorBoard logdir, or a saved report.", show_default=False
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="File to write; its suffix says what: .html, .md, .json, .sarif (by line), or .zip for a ticket.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]
ShowRedactions = Annotated[
    bool,
    typer.Option("--show-redactions", help="List what is replaced by what, to review before sending."),
]


def report(
    path: Source,
    out: Out = None,
    no_redact: NoRedact = False,
    force: Force = False,
    show_redactions: ShowRedactions = False,
) -> None:
    """Write a report to send. Private values are replaced by pseudonyms, unless --no-redact is given."""
    _check_usage(out, no_redact, show_redactions)
    if out is not None and out.exists() and not force:
        raise TpuprofError(Code.OUTPUT_EXISTS, f"{out}: this file exists.", "Add --force to replace it.")
    from tpuprof.cli.opening import open_report
    from tpuprof.share.redacted_report import redactor_for
    from tpuprof.share.save import NOT_REDACTED

    plain = no_redact or (out is not None and out.suffix in NOT_REDACTED)
    redacts = show_redactions or not plain
    ahead = _looking_for_texts(path) if redacts else None
    found = open_report(path, in_columns=True)
    redactor = redactor_for(found, ahead=ahead) if redacts else None
    if out is not None:
        with writing(out):
            _write(out, found, path, redactor)
        if redactor is not None:
            typer.echo(f"{out} ({out.stat().st_size:,} bytes); {_replaced(redactor)}", err=True)
        else:
            typer.echo(f"{out} ({out.stat().st_size:,} bytes); nothing was redacted", err=True)
    if show_redactions and redactor is not None:
        redactor.value(found)
        _show(redactor)


def _looking_for_texts(path: Path) -> Callable[[], dict[str, list[str]]] | None:
    """Begin to look for texts that may name somebody in the profiles of a run, while they are analyzed.

    None where that is not known to be of use: of URLs, of saved reports, of many files.
    """
    from tpuprof.cli.opening import is_url
    from tpuprof.decode.find import find
    from tpuprof.parallel import begin
    from tpuprof.report.saved import is_saved_report

    if is_url(path) or is_saved_report(path):
        return None
    from tpuprof.share.learn_profile import telling_texts

    files = list(find(path).files.values())
    if len(files) != 1:
        return None
    return begin(lambda: {str(files[0]): telling_texts(files[0])})


def _replaced(redactor: Redactor) -> str:
    """What was replaced, and what was looked for and not found: a name without a form that gives it away stays."""
    from tpuprof.share.sensitive import Kind

    counts = redactor.counts_by_kind()
    missing = [kind.value for kind in Kind if kind.value not in counts]
    found = ", ".join(f"{kind} {count}" for kind, count in counts.items()) or "nothing"
    return f"replaced: {found}; looked for and not found: {', '.join(missing) or 'nothing'}"


def _check_usage(out: Path | None, no_redact: bool, show_redactions: bool) -> None:
    if out is None and not show_redactions:
        raise TpuprofError(
            Code.USAGE,
            "tpuprof report: no output file is given.",
            "Add -o report.html (.md, .json, .sarif, .zip).",
        )
    if no_redact and show_redactions:
        raise TpuprofError(
            Code.USAGE,
            "--no-redact replaces nothing, so there is nothing to show.",
            "Remove one of the two options.",
        )
    if out is not None:
        from tpuprof.share.save import check_format

        check_format(out)
    if out is not None and not out.parent.is_dir():
        raise TpuprofError(Code.OUTPUT_FAILED, f"{out.parent}: there is no such folder.", "Create it first.")


def _write(out: Path, found: Report, path: Path, redactor: Redactor | None) -> None:
    from tpuprof.cli.opening import run_folder_of
    from tpuprof.share.save import save_report

    folder = run_folder_of(path) if out.suffix == ".zip" else None
    for note in save_report(out, found, folder, redactor):
        typer.echo(f"{out.name}: {note}", err=True)


def _show(redactor: Redactor) -> None:
    from rich.table import Table

    from tpuprof.cli.terminal import console
    from tpuprof.render.text import escape

    table = Table(box=None, pad_edge=False)
    for name in ("kind", "value", "shown as"):
        table.add_column(name, overflow="fold")
    table.add_column("times", justify="right")
    for kind, value, pseudonym, times in redactor.replacements():
        table.add_row(kind, escape(value), pseudonym, str(times))
    console().print(table)
