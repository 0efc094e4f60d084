"""The `tpuprof` command line: registers every subcommand."""

from __future__ import annotations

import sys
from typing import Any

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
from tpuprof.cli.guard import EXIT_INTERRUPTED, guarded
from tpuprof.cli.history import history
from tpuprof.cli.mcp import mcp
from tpuprof.cli.preflight import preflight
from tpuprof.cli.prove import prove
from tpuprof.cli.query import query
from tpuprof.cli.report import report
from tpuprof.cli.rules import rules
from tpuprof.cli.tensorboard import tensorboard
from tpuprof.cli.watch import watch
from tpuprof.errors import Code, TpuprofError
from tpuprof.version import VERSION

app = typer.Typer(
    name="tpuprof",
    help="Say in one sentence what holds a PyTorch or JAX training run on TPU back, with the evidence.",
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
    guarded(run)


def run() -> None:
    """Run the command that the arguments name.

    Raises `TpuprofError` where they are no usage of it: the library would print four lines without a code.
    """
    try:
        status = app(prog_name="tpuprof", standalone_mode=False)
    except typer.Abort:
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        raise _usage_error(error) from error
    if isinstance(status, int):
        sys.exit(status)


def _usage_error(error: Any) -> TpuprofError:
    """What the command line's library says of arguments, in one line; without any, the help is printed first."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "tpuprof"
    where = f"{command}: " if " " in command else ""
    if context and type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(context.get_help(), err=True)
        return TpuprofError(Code.USAGE, "no command is given.", "Choose one of those above.")
    said = " ".join(error.format_message().split())
    said = said[:1].lower() + said[1:]
    stop = "" if said.endswith((".", "?", "!")) else "."
    return TpuprofError(Code.USAGE, f"{where}{said}{stop}", f"`{command} --help` lists what is possible.")


if __name__ == "__main__":
    main()
