"""`tpuprof goodput`: where all wall time of a watched job went since its first start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tpuprof.cli.options import AsJson


def goodput(
    path: Annotated[
        Path, typer.Argument(help="The folder that `tpuprof watch` writes to.", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Say where all wall time went since a job's first start: steps, compiles, checkpoints, crashes, idle time.

    The kinds are those of ml-goodput-measurement. They sum to the wall time.
    """
    from tpuprof.goodput.jobs import as_dict, goodput_of, render
    from tpuprof.watch.remote import job_folder

    with job_folder(path) as (folder, _):
        jobs = goodput_of(folder)
    if as_json:
        import json

        typer.echo(json.dumps(as_dict(jobs), indent=1, allow_nan=False))
        return
    from tpuprof.cli.terminal import console

    render(jobs, console())
