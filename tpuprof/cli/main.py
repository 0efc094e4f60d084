"""The `tpuprof` command line: registers every subcommand."""

from __future__ import annotations

import typer

from tpuprof.cli.analyze import analyze
from tpuprof.cli.capture import capture
from tpuprof.cli.check import check
from tpuprof.cli.dashboard import dashboard
from tpuprof.cli.demo import demo
from tpuprof.cli.diff import diff
from tpuprof.cli.doctor import doctor
from tpuprof.cli.export import export
from tpuprof.cli.goodput import goodput
from tpuprof.cli.guard import guarded
from tpuprof.cli.history import history
from tpuprof.cli.mcp import mcp
from tpuprof.cli.preflight import preflight
from tpuprof.cli.prove import prove
from tpuprof.cli.query import query
from tpuprof.cli.report import report
from tpuprof.cli.rules import rules
from tpuprof.cli.tensorboard import tensorboard
from tpuprof.cli.watch import watch
from tpuprof.version import VERSION

app = typer.Typer(
    name="tpuprof",
    help="Say in one sentence what holds a PyTorch/XLA training run on TPU back, with the evidence.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(analyze)
app.command()(report)
app.command()(diff)
app.command()(check)
app.command()(prove)
app.command()(capture)
app.command()(watch)
app.command()(goodput)
app.command()(history)
app.command()(dashboard)
app.command()(query)
app.command()(export)
app.command()(mcp)
app.command()(tensorboard)
app.command()(preflight)
app.command()(rules)
app.command()(doctor)
app.command()(demo)


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
    _debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error; may stand anywhere."),
) -> None:
    """Hold what every subcommand shares."""
    if version:
        typer.echo(VERSION)
        raise typer.Exit


def main() -> None:
    """Run the command line; the console script comes here by way of `entry`."""
    guarded(app)


if __name__ == "__main__":
    main()
