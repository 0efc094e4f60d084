"""`tpuprof dashboard`: opens one or more runs in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def dashboard(
    paths: Annotated[
        list[Path], typer.Argument(help="Trace files, run folders or logdirs.", show_default=False)
    ],
    host: Annotated[str, typer.Option(help="Loopback address to serve on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to serve on.")] = 8050,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser.")] = False,
) -> None:
    """Show runs in the browser: verdict, where each step's time goes, steps, compiles, ops, annotations."""
    from tpuprof.analyse import analyse_run
    from tpuprof.errors import Code, TpuprofError

    if host not in _LOOPBACK:
        raise TpuprofError(
            Code.USAGE,
            f"--host {host}: the dashboard serves this machine only.",
            "Reach it from elsewhere through an SSH tunnel: ssh -L 8050:localhost:8050 HOST.",
        )
    try:
        from tpuprof_dashboard.app import create_app
    except ImportError as error:
        raise TpuprofError(
            Code.MISSING_EXTRA,
            "The dashboard is not installed.",
            'Install it with: pip install "tpuprof[dashboard]".',
        ) from error
    app = create_app({str(path): analyse_run(path) for path in paths})
    url = f"http://{host}:{port}/"
    typer.echo(f"tpuprof: dashboard on {url} (Ctrl-C ends it)", err=True)
    if not no_browser:
        import webbrowser

        webbrowser.open(url)
    app.run(host=host, port=str(port), debug=False)
