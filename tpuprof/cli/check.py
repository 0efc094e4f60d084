"""`tpuprof check`: holds a run against a budget, for CI."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

EXIT_BROKEN = 1


def check(
    path: Annotated[
        Path, typer.Argument(help="The run to check: a run, a saved report or a bundle.", show_default=False)
    ],
    budget: Annotated[
        Path, typer.Option("--budget", "-b", help="The budget, or a profile: smoke, pull-request, tpu.")
    ] = Path("tpuprof.toml"),
    baseline: Annotated[
        Path | None, typer.Option("--baseline", help="The run or saved report that tolerances refer to.")
    ] = None,
    junit: Annotated[Path | None, typer.Option("--junit", help="Write JUnit XML to this file.")] = None,
    github: Annotated[
        bool,
        typer.Option(
            "--github/--no-github",
            help="Print GitHub annotations; on by itself inside GitHub Actions.",
            show_default=False,
        ),
    ] = os.environ.get("GITHUB_ACTIONS") == "true",
) -> None:
    """Hold a run against a budget; status 1 if an assertion of level error does not hold."""
    from tpuprof.budget.check import check as hold
    from tpuprof.budget.check import read_budget
    from tpuprof.budget.output import github_annotations, render
    from tpuprof.budget.output import junit as junit_xml
    from tpuprof.cli.opening import open_report
    from tpuprof.cli.terminal import console
    from tpuprof.errors import writing

    assertions = read_budget(budget)
    results = hold(assertions, open_report(path), open_report(baseline) if baseline else None)
    render(results, console())
    if junit is not None:
        with writing(junit):
            junit.write_text(junit_xml(results, path.name), "utf-8")
    if github:
        for line in github_annotations(results, budget, Path.cwd()):
            typer.echo(line)
    if any(each.fails for each in results):
        raise typer.Exit(EXIT_BROKEN)
