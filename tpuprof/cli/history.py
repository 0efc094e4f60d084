"""`tpuprof history`: the runs of a watched job one after the other, and the first that got slower."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def history(
    path: Annotated[
        Path, typer.Argument(help="The folder that `tpuprof watch` writes to.", show_default=False)
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the runs as JSON.")] = False,
) -> None:
    """Show step time and goodput of a job's runs by commit, and name the first regression."""
    from tpuprof.goodput.history import as_dict, history_of, render
    from tpuprof.watch.remote import job_folder

    with job_folder(path) as (folder, _):
        jobs = history_of(folder)
    if as_json:
        import json

        typer.echo(json.dumps(as_dict(jobs), indent=1, allow_nan=False))
        return
    from tpuprof.cli.terminal import console

    render(jobs, console())
