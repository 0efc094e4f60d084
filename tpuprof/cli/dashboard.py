"""`tpuprof dashboard`: opens one or more runs in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def dashboard(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Trace files, run folders, logdirs, saved reports or ticket bundles.", show_default=False
        ),
    ],
    host: Annotated[
        str, typer.Option(help="Address to serve on. Any but a loopback one requires a token, printed once.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to serve on; 0 takes a free one.")] = 8050,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser.")] = False,
) -> None:
    """Show runs in the browser: what is slow, what to try, and the evidence; new runs of a logdir appear."""
    from tpuprof.cli.opening import here
    from tpuprof.errors import Code, TpuprofError

    paths = [here(path) for path in paths]
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise TpuprofError(Code.NOT_FOUND, f"{missing[0]}: no such file or folder.", "Check the path.")
    try:
        from tpuprof_dashboard.serve import serve
    except ImportError as error:
        raise TpuprofError(
            Code.MISSING_EXTRA,
            "The dashboard is not installed.",
            'Install it with: pip install "tpuprof[dashboard]".',
        ) from error
    serve(paths, host, port, open_browser=not no_browser)
