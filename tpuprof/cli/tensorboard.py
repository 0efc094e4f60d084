"""`tpuprof tensorboard`: opens a run in TensorBoard, with tpuprof's verdict and step times beside the profile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer


def tensorboard(
    run: Annotated[Path, typer.Argument(help="A run folder or logdir.", show_default=False)],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to serve on; 0 lets TensorBoard choose.")
    ] = 6006,
    write_only: Annotated[
        bool, typer.Option("--write-only", help="Write the event file and start no server.")
    ] = False,
) -> None:
    """Open a run in TensorBoard: its profile in XProf's plugin, verdict, step times and breakdown beside it."""
    from tpuprof.analysis.analyze import analyze_run
    from tpuprof.cli.opening import here, is_url
    from tpuprof.errors import Code, TpuprofError
    from tpuprof.export.tensorboard_events import write_events

    elsewhere = is_url(run)
    if elsewhere and write_only:
        raise TpuprofError(
            Code.USAGE,
            "--write-only writes beside the profile, and of a run at a URL that is a copy, which is removed.",
            "Leave --write-only out, or copy the run here first.",
        )
    run = here(run)
    if not run.exists():
        raise TpuprofError(Code.NOT_FOUND, f"{run}: no such file or folder.", "Check the path.")
    if not run.is_dir():
        raise TpuprofError(
            Code.USAGE, f"{run}: TensorBoard reads folders.", "Give the folder the profile is in."
        )
    report = analyze_run(run)
    written = write_events(report, run)
    if not elsewhere:
        typer.echo(f"tpuprof: wrote {written}", err=True)
    if write_only:
        return
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(run), "--port", str(port)]
    try:
        status = subprocess.run(command, check=False).returncode
    except KeyboardInterrupt:
        return
    if status:
        raise typer.Exit(2)
