"""Options and arguments that several commands have, each with one meaning and one help text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

Command = Annotated[
    list[str] | None,
    typer.Argument(help="The training command, after `--`: python train.py ARGS", show_default=False),
]
Trace = Annotated[
    Path, typer.Argument(help="A trace file, a run folder, or a TensorBoard logdir.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
NoRedact = Annotated[
    bool, typer.Option("--no-redact", help="Keep names, paths, addresses and keys as they are.")
]


def either(name: str, command: list[str] | None, option: str, given: Any, example: str) -> None:
    """Raise `TpuprofError` (`usage`) unless a command was given or what an option names, and not both."""
    from tpuprof.errors import Code, TpuprofError

    if bool(command) == bool(given):
        raise TpuprofError(Code.USAGE, f"{name} needs either a command or {option}.", f"Write {example}.")


def parse_duration(text: str) -> float:
    """Seconds of `5s`, `500ms`, `1m` or a bare number of seconds. Raises `TpuprofError` (`usage`)."""
    from tpuprof.errors import Code, TpuprofError

    for unit, factor in (("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("", 1.0)):
        if text.endswith(unit):
            try:
                seconds = float(text.removesuffix(unit)) * factor
            except ValueError:
                continue
            if 0 < seconds < 3600:
                return seconds
    raise TpuprofError(
        Code.USAGE, f"--duration {text!r} is not a duration below an hour.", "Write it as 5s or 500ms."
    )
