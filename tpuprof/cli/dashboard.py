"""`tpuprof dashboard`: opens one or more runs in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tpuprof.cli.entry import BASE_VARIABLE


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
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to serve on; 0 takes a free one.")] = 8050,
    base: Annotated[
        Path | None,
        typer.Option(
            help="Say on every page what changed since this run.", envvar=BASE_VARIABLE, show_default=False
        ),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser.")] = False,
) -> None:
    """Show runs in the browser: what is slow, what to try, and the evidence; new runs of a logdir appear."""
    from tpuprof.cli.opening import here
    from tpuprof.errors import Code, TpuprofError

    paths = [here(path) for path in paths]
    base = here(base) if base is not None else None
    missing = [path for path in (*paths, base) if path is not None and not path.exists()]
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
    serve(paths, host, port, open_browser=not no_browser, base=base)
