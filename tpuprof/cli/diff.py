"""`tpuprof diff`: compares two runs and says what changed beyond noise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tpuprof.cli.options import AsJson, NoRedact

if TYPE_CHECKING:
    from tpuprof.compare.diff import Comparison

EXIT_WORSE = 1
EXIT_UNFAIR = 2
EXIT_UNKNOWN = 4


def diff(
    base: Annotated[
        Path,
        typer.Argument(
            help="The run to compare with: a run, a saved report or a bundle.", show_default=False
        ),
    ],
    candidate: Annotated[Path, typer.Argument(help="The run to judge.", show_default=False)],
    as_json: AsJson = False,
    as_markdown: Annotated[
        bool, typer.Option("--md", help="Print it as Markdown, for a pull request.")
    ] = False,
    no_redact: NoRedact = False,
) -> None:
    """Say what changed from one run to another beyond noise.

    Status 1 if the candidate is worse, 4 if that cannot be judged.
    """
    from tpuprof.cli.opening import open_report
    from tpuprof.compare.decision import Outcome
    from tpuprof.compare.diff import diff as compare

    reports = [open_report(path) for path in (base, candidate)]
    comparison = compare(*reports)
    if not no_redact:
        from tpuprof.share.redacted_report import redactor_for

        comparison = redactor_for(*reports).value(comparison)
    _print(comparison, as_json, as_markdown)
    statuses = {Outcome.WORSE: EXIT_WORSE, Outcome.UNFAIR: EXIT_UNFAIR, Outcome.UNKNOWN: EXIT_UNKNOWN}
    if comparison.outcome in statuses:
        raise typer.Exit(statuses[comparison.outcome])


def _print(comparison: Comparison, as_json: bool, as_markdown: bool) -> None:
    if as_json:
        import json

        typer.echo(json.dumps(comparison.to_dict(), indent=1, allow_nan=False))
    elif as_markdown:
        from tpuprof.compare.text import render_markdown

        typer.echo(render_markdown(comparison), nl=False)
    else:
        from tpuprof.cli.terminal import console
        from tpuprof.compare.text import render

        render(comparison, console())
