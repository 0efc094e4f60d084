"""`tpuprof analyze`: says what holds a captured run back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def analyze(
    path: Annotated[
        Path, typer.Argument(help="A trace file, a run folder, or a TensorBoard logdir.", show_default=False)
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole Report as JSON.")] = False,
    as_markdown: Annotated[
        bool,
        typer.Option("--md", help="Print it as Markdown, nothing redacted; to send, see tpuprof report."),
    ] = False,
) -> None:
    """Say what holds a captured run back, and where each step's time went."""
    from tpuprof.analyse import analyse_run

    report = analyse_run(path)
    if as_json:
        import json

        typer.echo(json.dumps(report.to_dict(), indent=1, allow_nan=False))
        return
    if as_markdown:
        from tpuprof.report.markdown import render_markdown

        typer.echo(render_markdown(report), nl=False)
        return
    from rich.console import Console

    from tpuprof.report.text import render

    render(report, Console(highlight=False))
