"""What the commands that start a training program have in common."""

from __future__ import annotations

from typing import Annotated, Any

import typer

Command = Annotated[
    list[str] | None,
    typer.Argument(help="The training command, after `--`: python train.py ARGS", show_default=False),
]


def either(name: str, command: list[str] | None, option: str, given: Any, example: str) -> None:
    """Raise `TpuprofError` (`usage`) unless a command was given or what an option names, and not both."""
    from tpuprof.errors import Code, TpuprofError

    if bool(command) == bool(given):
        raise TpuprofError(Code.USAGE, f"{name} needs either a command or {option}.", f"Write {example}.")
