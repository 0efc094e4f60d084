"""What commands print to: a terminal, a pipe, a file, or nothing."""

from __future__ import annotations

import codecs
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

# Width of text that goes to a file or a pipe (characters): tables of a report fit, and nothing is cut.
PIPED_WIDTH = 200
# What stands for characters of ours that an encoding lacks: a sign, a unit and a mark of a chart keep their meaning.
_STAND_INS = {
    "−": "-",
    "µ": "u",
    "≥": ">=",
    "≤": "<=",
    "×": "x",
    "…": "...",
    "·": "-",
    "↑": "^",
    **dict(zip("█▓▒░▚▞▦▩▤▥▧▨", "#@%.o/+*=|~:", strict=True)),
}
_ERRORS = "tpuprof-stand-ins"


def prepare_output() -> None:
    """Make stdout and stderr take any text, whatever their encoding and the COLUMNS of the environment."""
    columns = os.environ.get("COLUMNS", "")
    if not columns.isdecimal() or int(columns) == 0:
        os.environ.pop("COLUMNS", None)
    codecs.register_error(_ERRORS, _stand_in)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # open for our whole life
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_ERRORS)


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    """What is written for the first of the characters that cannot be: `?` for one that is not ours."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return _STAND_INS.get(error.object[error.start], "?"), error.start + 1


def console() -> Console:
    """A console on stdout: as wide as the terminal, else as COLUMNS says, else wide enough to cut nothing."""
    from rich.console import Console

    class OurConsole(Console):
        def on_broken_pipe(self) -> None:
            """Let `guarded` end the command: rich would end it with 1, which says that a comparison failed."""
            raise BrokenPipeError

    wide = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return OurConsole(highlight=False, width=PIPED_WIDTH if wide else None)
