"""Which two programs `tpuprof prove` compares: two commands, or one command before and after a change of its code."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tpuprof.errors import Code, TpuprofError
from tpuprof.prove.program import Program
from tpuprof.prove.revision import before_the_change

_WAYS = (
    'Write --before "python a.py" --after "python b.py", or one of them and the other command after `--`. '
    "With a command after `--` alone, the last commit is compared with the working tree."
)


@contextmanager
def two_programs(
    command: list[str], before: str, after: str, base: str, here: Path
) -> Iterator[tuple[Program, Program, str]]:
    """The programs before and after the fix, and what differs between them where that is known, in words.

    `command` is what stands after `--`, `base` a git revision. Raises `TpuprofError` (`usage`).
    """
    first, second = _words("--before", before), _words("--after", after)
    if len([each for each in (command, first, second) if each]) == 2 and not base:
        yield Program(first or command), Program(second or command), ""
        return
    if not command or first or second:
        raise TpuprofError(Code.USAGE, _refusal(command, base), _WAYS)
    with before_the_change(command, base, here) as (program, differs):
        yield program, Program(command), differs


def _refusal(command: list[str], base: str) -> str:
    if base and command:
        return "--base is for one command, and needs neither --before nor --after."
    if base:
        return "--base needs the command after `--`."
    return "prove needs two commands, and not three." if command else "prove needs two commands."


def _words(option: str, text: str) -> list[str]:
    """The words of a command given as one text. Raises `TpuprofError` (`usage`)."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise TpuprofError(
            Code.USAGE, f"{option}: this is not a command ({error}).", "Check its quotes."
        ) from error
