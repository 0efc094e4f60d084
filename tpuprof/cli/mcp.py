"""`tpuprof mcp`: serves runs to agents."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

TOKEN_VARIABLE = "TPUPROF_MCP_TOKEN"


def mcp(
    paths: Annotated[
        list[Path],
        typer.Argument(help="Runs, or folders of runs: nothing else is read.", show_default=False),
    ],
    http: Annotated[
        bool, typer.Option("--http", help="Serve HTTP on this machine with a token, not stdin and stdout.")
    ] = False,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port for --http.")] = 8765,
    work: Annotated[
        Path | None,
        typer.Option(help="The only folder that is written to; else a temporary one.", show_default=False),
    ] = None,
) -> None:
    """Serve runs to agents by the Model Context Protocol: ten tools, small answers, evidence ids.

    With --http the token is TPUPROF_MCP_TOKEN, or a new one, which is printed to stderr.
    """
    import shutil

    from tpuprof.cli.process import leave_on_signals
    from tpuprof.mcp.server import LOOPBACK, make_server, new_token, serve_http, work_folder

    with work_folder(work) as folder:
        # The thread that reads stdin cannot be ended, so that Ctrl-C would wait for it.
        leave_on_signals(lambda: None if work else shutil.rmtree(folder, ignore_errors=True))
        server = make_server(paths)
        if not http:
            server.run("stdio")
            return
        token = os.environ.get(TOKEN_VARIABLE, "")
        if not token:
            token = new_token()
            typer.echo(f"tpuprof: the token is {token}", err=True)
        typer.echo(f"tpuprof: serving http://{LOOPBACK}:{port}/mcp", err=True)
        serve_http(server, port, token)
