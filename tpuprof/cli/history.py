"""`tpuprof history`: the runs of a watched job one after the other, and what became of fixes that were tried."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tpuprof.cli.options import AsJson
from tpuprof.errors import Code, TpuprofError


def history(
    path: Annotated[
        Path,
        typer.Argument(
            help="The folder that `tpuprof watch` writes to, or a folder of runs.", show_default=False
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Show step time and goodput of a job's runs by commit, and name the first regression.

    Lists fixes that `tpuprof prove` tried in the runs below the folder: what was predicted, and what was measured.
    """
    from tpuprof.goodput.history import as_dict, history_of
    from tpuprof.prove.track_record import as_rows, tried_below
    from tpuprof.watch.remote import job_folder

    with job_folder(path) as (folder, _):
        tried = tried_below(folder)
        try:
            jobs = history_of(folder)
        except TpuprofError as error:
            if error.code != Code.NO_LEDGER:
                raise
            if not tried:
                raise _nothing_in(folder) from error
            jobs = {}
    if as_json:
        import json

        found = {**as_dict(jobs), "proofs": as_rows(tried)}
        typer.echo(json.dumps(found, indent=1, allow_nan=False))
        return
    from tpuprof.cli.terminal import console
    from tpuprof.goodput.history import render
    from tpuprof.prove.track_record import render as render_tried

    if jobs:
        render(jobs, console())
    if tried:
        render_tried(tried, console())


def _nothing_in(folder: Path) -> TpuprofError:
    return TpuprofError(
        Code.NO_LEDGER,
        f"{folder}: there is neither a ledger in it nor a proof in a run below it.",
        "Record one with `tpuprof watch -o FOLDER -- python train.py`, or try a fix with `tpuprof prove`.",
    )
