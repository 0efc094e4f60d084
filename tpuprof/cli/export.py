"""`tpuprof export`: writes the tables of a run as Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tpuprof.cli.options import Trace
from tpuprof.errors import Code, TpuprofError


def export(
    path: Trace,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write to.", show_default=False)],
    parquet: Annotated[
        bool, typer.Option("--parquet", help="Write Parquet files, TABLE.parquet each.")
    ] = False,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", "-t", help="Write this table alone; may be repeated.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
) -> None:
    """Write the tables of a run: steps, ops, events, compiles, findings and more. Nothing is redacted."""
    from tpuprof.cli.opening import here
    from tpuprof.tables.opened import read_in_processes

    if not parquet:
        raise TpuprofError(Code.USAGE, "tpuprof export: no format is given.", "Add --parquet.")
    if out.exists() and not out.is_dir():
        raise TpuprofError(Code.OUTPUT_EXISTS, f"{out}: this is a file.", "Give a folder.")
    with read_in_processes(here(path)) as run:
        written = run.export(out, table or (), force=force)
    for file, rows in written.items():
        typer.echo(f"{file} ({rows:,} {'row' if rows == 1 else 'rows'})", err=True)
