"""`tpuprof doctor`: checks what this machine has for capturing and analyzing, and says what to do."""

from __future__ import annotations

import typer

_MARKS = {"ok": "[green]ok[/]", "warn": "[yellow]warn[/]", "fail": "[red]FAIL[/]"}


def doctor() -> None:
    """Check versions, devices, flags and disk space; exit with 2 if something cannot work."""
    from rich.markup import escape
    from rich.table import Table

    from tpuprof.capture.checks import run_checks
    from tpuprof.cli.terminal import console

    checks = run_checks()
    table = Table(box=None, pad_edge=False)
    for column in ("", "check", "found", "what to do"):
        table.add_column(column)
    for check in checks:
        table.add_row(_MARKS[check.state], check.name, escape(check.found), escape(check.advice))
    console().print(table)
    if any(check.state == "fail" for check in checks):
        raise typer.Exit(2)
